"""An external command as a simulator: a folder per run, input written for it, output read after it, no process left behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyperleaf.checks import alike
from hyperleaf.errors import InputError
from hyperleaf.io import read_file
from hyperleaf.processes import Finished, run_command
from hyperleaf.simulators import readers, templates
from hyperleaf.simulators.base import BadOutput, Failure, Outcome, Success, check_outputs, input_names
from hyperleaf.simulators.durations import format_duration, parse_duration
from hyperleaf.simulators.folders import run_folder, study_folder

_RESERVED = ("input", "output", "folder", "query", "attempt", "study")
_STDOUT, _STDERR, _COMMAND = "stdout.txt", "stderr.txt", "command.txt"
_SUFFIX = {"json": ".json", "csv": ".csv"}


class CommandSimulator:
    """Runs a command, without a shell, in a folder of its own: <runs>/<study>/query-0007/attempt-1-5f3a9c2e.

    `command` is split as a shell would; {input}, {output}, {folder}, {query}, {attempt}, {study} and the name of each input
    are filled in afterwards, so values with blanks stay one argument. The program, and arguments that name a file of the study's
    `folder`, are found from there. `input` is "json" (a flat object) or the path of a template, a text in which {name} or
    {name:.3f} is filled in. `output` is "json" (a flat object), "csv" (a header, and the last row counts), or a pattern with
    one group per output, searched in `search`: "file", or "stdout" (where the command names no {output}); the last match counts.

    A run fails if the exit code is not 0, if the results file begins with "fail", if outputs are missing or not finite, or if
    it takes longer than `timeout` ("2h", "90s", seconds). Where the `inputs` are known (a Domain or names), placeholders are
    checked at once. `study` is the name of the study whose runs these are.
    """

    outputs: tuple[str, ...]

    def __init__(
        self,
        command: str | Sequence[str],
        outputs: Iterable[str] | str,
        *,
        timeout: float | str | None = None,
        input: str | Path = "json",
        output: str | Mapping[str, str] = "json",
        output_file: str | None = None,
        search: str | None = None,
        run_in: str = "folder",
        runs: str | Path = "runs",
        folder: str | Path | None = None,
        inputs: Any = None,
        study: str | None = None,
    ) -> None:
        self.outputs = check_outputs(outputs)
        self._study = Path(folder or ".").absolute()
        self._names = input_names(inputs)
        self._timeout = None if timeout is None else parse_duration(timeout, "the timeout of a command")
        self._run_in = _one_of("run_in", run_in, ("folder", "study"))
        self._runs = self._study / runs
        if self._runs.exists() and not self._runs.is_dir():
            raise InputError(f"runs must be a folder; {self._runs} is a file. Name another folder.")
        self._runs = study_folder(self._runs, study)
        self._template, self._input_file = self._read_template(input)
        words = _split(command)
        self._check_placeholders([(word, "the command") for word in words] + [(self._template or "", f"the template {input}")])
        self._words = [self._find_program(words[0]), *map(self._find_file, words[1:])]
        self._format, self._patterns = self._read_format(output)
        names_file = output_file is not None or any("output" in templates.placeholders(word, "the command") for word in words)
        self._search = "file" if names_file or self._patterns is None else "stdout"
        if search is not None:
            self._search = _one_of("search", search, ("stdout", "file"))
        if self._search == "stdout" and self._patterns is None:
            raise InputError(
                f'search = "stdout" needs patterns; got output = {output!r}. Give output a pattern per name, or write a file.'
            )
        self._output_file = (
            self._check_file(output_file) if output_file is not None else "output" + _SUFFIX.get(self._format, ".txt")
        )
        if hasattr(inputs, "from_unit"):  # a Domain: its centre shows whether formats suit the values
            self._fill(inputs.from_unit([[0.5] * inputs.num_dims])[0], self._runs, 0, 1)

    def __repr__(self) -> str:
        return f"CommandSimulator({shlex.join(self._words)!r}, outputs={list(self.outputs)})"

    def __call__(self, point: Mapping[str, Any], *, query_id: int, attempt: int = 1) -> Outcome:
        start = time.monotonic()
        run = run_folder(self._runs, query_id, attempt)
        command, text = self._fill(point, run, query_id, attempt)
        try:
            run.mkdir(parents=True)
            (run / self._input_file).write_text(text, encoding="utf-8")
            (run / _COMMAND).write_text(shlex.join(command) + "\n", encoding="utf-8")
            cwd = run if self._run_in == "folder" else self._study
            done = run_command(command, cwd=cwd, stdout=run / _STDOUT, stderr=run / _STDERR, timeout=self._timeout)
        except (OSError, ValueError) as error:  # no such program, no right to run it, disk full, a NUL in an argument
            return Failure(f"the command could not be run: {error}.", time.monotonic() - start, str(run))
        log = _tail(run / _STDERR) or _tail(run / _STDOUT)
        try:
            self._judge(done, run)
            return Success(self._read(run), done.seconds, str(run))
        except BadOutput as error:
            return Failure(f"{error}.", done.seconds, str(run), log, interrupted=done.ended)

    def _fill(self, point: Mapping[str, Any], run: Path, query_id: int, attempt: int) -> tuple[list[str], str]:
        """The command and the text of the input file for this point."""
        reserved = {
            "input": str(run / self._input_file),
            "output": str(run / self._output_file),
            "folder": str(run),
            "query": query_id,
            "attempt": attempt,
            "study": str(self._study),
        }
        values = {**point, **reserved}
        command = [templates.fill(word, values, "the command") for word in self._words]
        if self._template is not None:
            return command, templates.fill(self._template, values, "the template")
        plain = {name: value.item() if hasattr(value, "item") else value for name, value in point.items()}
        return command, json.dumps(plain, indent=2, ensure_ascii=False) + "\n"

    def _judge(self, done: Finished, run: Path) -> None:
        """A BadOutput if the command itself says that it failed."""
        if done.timed_out and self._timeout is not None:
            raise BadOutput(f"the command took longer than its timeout of {format_duration(self._timeout)} and was ended")
        if done.ended:
            raise BadOutput("the command was ended before it was finished")
        if (run / self._output_file).exists():
            columns = self.outputs if self._format == "csv" else ()
            readers.check_not_failed(readers.read_text(run / self._output_file, tail=True), columns)
        if done.code < 0:
            raise BadOutput(f"the command was killed by signal {-done.code} ({_signal_name(-done.code)})")
        if done.code > 0:
            last = _tail(run / _STDERR).strip().rpartition("\n")[2]
            raise BadOutput(f"the command ended with exit code {done.code}" + (f": {last[:200]}" if last else ""))

    def _read(self, run: Path) -> dict[str, float]:
        if self._patterns is not None:
            file = run / (_STDOUT if self._search == "stdout" else self._output_file)
            return readers.read_patterns(readers.read_text(file, tail=True), self._patterns)
        text = readers.read_text(run / self._output_file)
        return readers.read_json(text, self.outputs) if self._format == "json" else readers.read_csv(text, self.outputs)

    def _read_template(self, source: str | Path) -> tuple[str | None, str]:
        """The text of the template, None for JSON; and the name of the input file."""
        if source == "json":
            return None, "input.json"
        if not isinstance(source, str | Path) or not str(source).strip():
            raise InputError(f'input must be "json" or the path of a template; got {source!r}.')
        path = self._study / source
        try:
            text = read_file(path, readers.LARGEST_TABLE).decode("utf-8")
        except FileNotFoundError:
            raise InputError(
                f'input must be "json" or the path of a template; there is no file {path}. Correct the path.'
            ) from None
        except (OSError, ValueError) as error:
            raise InputError(f"the template {path} must be a text in UTF-8; it cannot be read ({error}).") from None
        name = path.stem if path.suffix in (".template", ".tmpl", ".tpl") else path.name
        return text, f"input-{name}" if name in (_STDOUT, _STDERR, _COMMAND) or name.startswith("output.") else name

    def _check_placeholders(self, texts: Iterable[tuple[str, str]]) -> None:
        for text, where in texts:
            used = templates.placeholders(text, where)
            for name in {*_RESERVED} & {*(self._names or ())} & {*used}:
                raise InputError(f"{{{name}}} in {where} must mean one thing; it is ours and an input's name. Rename the input.")
            if self._names is not None:
                templates.check(text, {*_RESERVED, *self._names}, where)

    def _find_program(self, word: str) -> str:
        if templates.placeholders(word, "the command"):
            return word
        plain = templates.fill(word, {}, "the command")
        if "/" not in plain:
            if shutil.which(plain) is None:
                hint = (
                    f"Write ./{plain} for the file in {self._study}."
                    if (self._study / plain).is_file()
                    else "Install it, or give its path."
                )
                raise InputError(f"the program of a command must be on the PATH; {plain!r} is not. {hint}")
            return word
        path = self._study / plain
        if not path.is_file():
            raise InputError(f"the program of a command must be a file; there is none at {path}. Correct the path.")
        if not os.access(path, os.X_OK):
            raise InputError(
                f"the program of a command must be executable; {path} is not. Run chmod +x on it, or call it by its interpreter."
            )
        return _escape(str(path))

    def _find_file(self, word: str) -> str:
        """An argument that names a file of the study is found also when the command runs in another folder."""
        if self._run_in == "study" or not word or word.startswith("-") or templates.placeholders(word, "the command"):
            return word
        path = self._study / templates.fill(word, {}, "the command")
        try:
            return _escape(str(path)) if path.is_file() else word
        except (OSError, ValueError):  # too long to be a path, or a NUL
            return word

    def _read_format(self, output: str | Mapping[str, str]) -> tuple[str, dict[str, re.Pattern[str]] | None]:
        if isinstance(output, str) and output in _SUFFIX:
            return output, None
        if not isinstance(output, Mapping):
            raise InputError(f'output must be "json", "csv" or a pattern per output; got {output!r}.{alike(output, _SUFFIX)}')
        for name in output:
            if name not in self.outputs:
                raise InputError(
                    f"patterns must be for outputs {list(self.outputs)}; got one for {name!r}.{alike(name, self.outputs)}"
                )
        patterns = {}
        for name in self.outputs:
            if not isinstance(output.get(name), str):
                raise InputError(f"output must have a pattern, a text, for each of {list(self.outputs)}; {name!r} has none.")
            try:
                patterns[name] = re.compile(output[name], re.MULTILINE)
            except (re.error, RecursionError, OverflowError) as error:
                raise InputError(
                    f"the pattern of {name!r} must be a regular expression; got {output[name]!r} ({error})."
                ) from None
            if patterns[name].groups != 1:
                raise InputError(
                    f"the pattern of {name!r} must have one group, the number; {output[name]!r} has {patterns[name].groups}. "
                    "Write it like 'lift = (\\S+)', and (?: ) for other groups."
                )
        return "patterns", patterns

    def _check_file(self, name: str) -> str:
        if not isinstance(name, str) or not name.strip() or Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(
                f"output_file must lie in the folder of the run; got {name!r}. Give a plain name, or use {{output}}."
            )
        if name in (_STDOUT, _STDERR, _COMMAND, self._input_file):
            raise InputError(
                f'output_file must be a file that the command writes; {name!r} is ours. Use search = "stdout", or rename it.'
            )
        return name


def _split(command: str | Sequence[str]) -> list[str]:
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise InputError(f"a command must be split like a shell does; got {command!r} ({error}). Close the quotes.") from None
    else:
        words = list(command) if isinstance(command, Sequence) else []
    if not words or any(not isinstance(word, str) or "\0" in word for word in words) or not words[0]:
        raise InputError(
            f'a command must be a text or a list of texts, not empty; got {command!r}. Write it like "./solver {{input}}".'
        )
    return words


def _one_of(key: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InputError(f"{key} must be one of {list(known)}; got {value!r}.{alike(value, known)}")
    return value


def _tail(path: Path, lines: int = 20, size: int = 4000) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, 2) - size))
            text = file.read(size).decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
