"""The commands. Each one reads its arguments, calls the library and prints what came of it, as text or as one JSON document.

Only typer is imported here, so that `hyperleaf --help` is instant. Errors that hyperleaf raises on purpose become a sentence on
stderr and an exit code; anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

import errno
import re
import shlex
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hyperleaf.cli import checking, output, people, serving, surrogates
from hyperleaf.cli.opening import AsJson, StudyArgument, StudyOption, keep_compiled, open_study, path_of
from hyperleaf.errors import HyperleafError
from hyperleaf.processes import at_once_next_time

FAILED_RUNS, INTERRUPTED = 3, 130
SCHEMA = ".study.schema.json"  # beside a study file, whose first line names it
EPILOG = (
    "Exit codes: 0 all went well; 1 an error, said on stderr; 2 wrong usage; 3 too many runs failed in a row; 130 interrupted. "
    "With --json a command prints one JSON document on stdout and nothing else there."
)


class Effort(StrEnum):
    """The names of `hyperleaf.inference.smc.EFFORTS`, which are not asked for them: that would load JAX."""

    fast = "fast"
    standard = "standard"
    thorough = "thorough"


class Commands(TyperGroup):
    """Turns hyperleaf's errors into sentences and exit codes, wherever they come from."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except HyperleafError as error:
            output.complain(str(error))
        except KeyboardInterrupt:
            at_once_next_time()
            output.complain("interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.errno == errno.EPIPE or error.filename is None:  # a reader that left, or nothing a user could repair
                raise
            output.complain(f"{error.filename}: {error.strerror or error}.")
        raise typer.Exit(1)


app = typer.Typer(
    name="hyperleaf",
    cls=Commands,
    help="Learn an accurate surrogate of an expensive system with as few runs as possible.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,  # rich is not loaded for a help text
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from hyperleaf import __version__

        typer.echo(f"hyperleaf {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
    verbose: Annotated[int, typer.Option("--verbose", "-v", count=True, help="Say more on stderr; -vv still more.")] = 0,
) -> None:
    import logging

    if verbose:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("hyperleaf").setLevel(logging.INFO if verbose == 1 else logging.DEBUG)


@app.command()
def new(
    path: Annotated[Path, typer.Argument(help="The file, or the folder for it.")] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    effort: Annotated[
        Effort, typer.Option("--effort", help="How hard it learns: fast for runs of seconds, thorough for runs of hours.")
    ] = Effort.standard,
    as_json: AsJson = False,
) -> None:
    """Write a commented study file to begin with.

    Beside it goes .study.schema.json, by which editors complete and check it; it may be deleted.
    """
    from hyperleaf.errors import InputError

    target = path / "study.toml" if path.is_dir() else path
    if target.exists() and not target.is_file():
        raise InputError(f"a study file must be a file; {target} is a pipe or a device. Name another.")
    if target.exists() and not force:
        raise InputError(f"{target} is there already. Name another file, or write over it with --force.")
    text = Path(__file__).with_name("study.toml").read_text(encoding="utf-8")
    written = 'effort = "standard"'
    text = text.replace(written, f'effort = "{effort.value}"'.ljust(len(written)), 1)  # the comment stays in its column
    target.write_text(text, encoding="utf-8")
    schema = target.with_name(SCHEMA)
    schema.write_bytes((Path(__file__).parents[1] / "config" / "study.schema.json").read_bytes())
    named = "" if target == Path("study.toml") else f" {shlex.quote(str(target))}"
    words = f"Wrote {target}. Fill in [inputs], [outputs] and [simulator], then: hyperleaf run{named}"
    more = f"Without a simulator a person answers: hyperleaf ask{named}\nWhether it is right says: hyperleaf check{named}"
    output.result(as_json, {"study": str(target), "schema": str(schema)}, f"{words}\n{more}")


checking.register(app)


@app.command()
def run(
    study: StudyArgument = None,
    study_option: StudyOption = None,
    jobs: Annotated[
        str, typer.Option("--jobs", "-j", metavar="N", help="Runs at a time, each in a process; or threads:N, dask://host:port.")
    ] = "1",
    queries: Annotated[int | None, typer.Option("--queries", "-n", min=1, help="Make at most so many more runs.")] = None,
    connect: serving.Connect = None,
    as_json: AsJson = False,
) -> None:
    """Ask, simulate and tell until it is enough.

    Goes on where it stopped before; Ctrl-C ends it cleanly.
    """
    from hyperleaf.cli.running import run_study

    path = path_of(study, study_option)
    _check_jobs(jobs)
    if connect is not None:
        stopped, shown, text = serving.run(connect, path, jobs=jobs, queries=queries, as_json=as_json)
    else:
        opened = open_study(path, learns=True, simulates=True)
        stopped, shown, text = run_study(opened, path, jobs=jobs, queries=queries, as_json=as_json)
    output.result(as_json, shown, text)
    if stopped.rule in ("interrupted", "failures"):
        raise typer.Exit(INTERRUPTED if stopped.rule == "interrupted" else FAILED_RUNS)


people.register(app)
serving.register(app)


@app.command()
def status(study: StudyArgument = None, study_option: StudyOption = None, as_json: AsJson = False) -> None:
    """How a study stands.

    Runs, open queries, accuracy, stop rules; quick, for nothing is learned.
    """
    found = open_study(path_of(study, study_option), begins=False).status()
    output.result(as_json, output.status_values(found), output.status_text(found) if not as_json else "")


surrogates.register(app)


@app.command()
def report(
    study: StudyArgument = None,
    study_option: StudyOption = None,
    target: Annotated[Path, typer.Option("-o", metavar="FILE.html", help="Where to write the page.")] = Path("report.html"),
    as_json: AsJson = False,
) -> None:
    """Write a page about a study, one HTML file.

    It opens anywhere, without a network.
    """
    from hyperleaf.cli import files

    path = path_of(study, study_option)
    files.check_folder(target)  # before anything is learned that would have nowhere to go
    written = open_study(path, begins=False, learns=True).report(target)
    output.result(as_json, {"file": str(written)}, f"Wrote {written}. Open it in a browser.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the page and the pictures go.")] = Path("out"),
    queries: Annotated[int, typer.Option("--queries", min=12, help="Runs of each surrogate.")] = 50,
    effort: Annotated[Effort, typer.Option("--effort", help="How hard both learn; more than fast takes longer.")] = Effort.fast,
    as_json: AsJson = False,
) -> None:
    """Two surrogates learn a function, side by side.

    One has 8 leaves, the other is stationary; each chooses its own runs. Takes about two minutes.
    """
    from hyperleaf.cli.demo import run_demo

    keep_compiled()
    shown, text = run_demo(out, queries, as_json, effort.value)
    output.result(as_json, shown, text)


@app.command()
def doctor(study: StudyArgument = None, study_option: StudyOption = None, as_json: AsJson = False) -> None:
    """Look at the installation, the cache and the store.

    Versions, cores, compiled code, the store and what was learned; and what is slow, and why.
    """
    from hyperleaf.cli import doctor as examination

    found = examination.examine(path_of(study, study_option))
    output.result(as_json, examination.values(found), examination.text(found) if not as_json else "")


_BENCH = Path(__file__).parents[1] / "bench" / "commands.py"  # a typer app of its own, loaded when it is called


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    hidden=not _BENCH.is_file(),
    add_help_option=False,
)
def bench(context: typer.Context) -> None:
    """The comparison: tasks, methods, seeds, statistics."""
    if not _BENCH.is_file():
        raise typer.BadParameter("this installation has no benchmarks.")
    from hyperleaf.bench.commands import app as commands

    code = commands(context.args, prog_name="hyperleaf bench", standalone_mode=False)
    if code:
        raise typer.Exit(code)


def _check_jobs(jobs: str) -> None:
    """Refuse at once what cannot be an executor; `executor` itself checks the rest when the run begins."""
    if not re.fullmatch(r"\s*(\d{1,9}|serial|(processes|threads)(:\d{1,9})?|dask://.*)\s*", jobs, re.ASCII):
        raise typer.BadParameter(f"--jobs must be a number of processes, threads:N or dask://host:port; got {jobs!r}.")
