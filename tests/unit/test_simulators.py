"""Simulators: a failed run is an answer with a reason, a wrong configuration is an error with a remedy."""

import json
import math
import os
import pickle
import re
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.errors import DataError, DomainError, HyperleafError, InputError
from hyperleaf.simulators import (
    CommandSimulator,
    Failure,
    FunctionSimulator,
    Simulator,
    Success,
    TableSimulator,
    as_simulator,
    format_duration,
    parse_duration,
    readers,
)
from hyperleaf.simulators.base import BadOutput

DOMAIN = Domain(mach=Real(0.2, 6.0), alpha=Real(-5, 30, unit="deg"))
POINT = {"mach": 2.5, "alpha": 10.0}


def run(simulator, point=None, **kwargs):
    return simulator(POINT if point is None else point, query_id=7, **kwargs)


def shell(script: str, folder: Path, **options) -> CommandSimulator:
    """A shell script as the command; $1 is the input and $2 the output file."""
    script = script.replace("{", "{{").replace("}", "}}")
    return CommandSimulator(["sh", "-c", script, "sh", "{input}", "{output}"], ["y"], folder=folder, **options)


# durations


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30 min", 5400),
        ("1.5h", 5400),
        (90, 90),
        (0.5, 0.5),
        ("90", 90),
        ("250ms", 0.25),
        ("1d", 86400),
        ("2 Hours", 7200),
        ("1m30s", 90),
        (np.float64(3), 3),
        (".5s", 0.5),
    ],
)
def test_durations_are_read_as_people_write_them(text, seconds) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "h",
        "2x",
        "1m2h",
        "1h1h",
        "-1h",
        "1:30",
        "inf",
        "nan",
        0,
        -1,
        math.inf,
        math.nan,
        True,
        None,
        [],
        "1e5s",
        10**400,
        "2h garbage",
        "9" * 400 + "s",
        "٣s",
    ],
)
def test_wrong_durations_are_refused_with_value_and_remedy(text) -> None:
    with pytest.raises(InputError, match=r"the timeout must be .*got .*1h30m"):
        parse_duration(text, "the timeout")


@given(st.floats(1e-4, 1e8))
@example(59.97)
@example(3599.6)
@example(86399.9)
@example(0.99951)
def test_what_is_formatted_is_read_back_to_three_digits_or_the_smaller_unit(seconds: float) -> None:
    smaller = 3600 if seconds >= 86370 else 60 if seconds >= 3599 else 1
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=6e-3 if seconds < 59 else 0, abs=0.51 * smaller)


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_an_input_error(text: str) -> None:
    with suppress(InputError):
        assert parse_duration(text) > 0


def test_durations_are_short_to_read() -> None:
    shown = [format_duration(s) for s in (0, 0.0354, 4.21, 42, 90, 3600, 7500, 90000, 59.99)]
    assert shown == ["0ms", "35.4ms", "4.2s", "42s", "1m30s", "1h", "2h05m", "1d01h", "1m"]


# functions


@pytest.mark.parametrize(
    ("function", "outputs"),
    [
        (lambda mach, alpha: mach + alpha, {"y": 12.5}),
        (lambda mach, alpha: np.float32(1.5), {"y": 1.5}),
        (lambda mach, alpha: np.array([2.0]), {"y": 2.0}),
        (lambda mach, alpha: np.array(2), {"y": 2.0}),
        (lambda **inputs: {"y": 1, "z": 2.0, "more": "text"}, {"y": 1.0, "z": 2.0}),
        (lambda mach, alpha: (mach, alpha), {"y": 2.5, "z": 10.0}),
        (lambda mach, alpha: np.array([mach, alpha]), {"y": 2.5, "z": 10.0}),
    ],
)
def test_a_function_returns_a_number_a_dict_or_a_tuple(function, outputs) -> None:
    simulator = FunctionSimulator(function, list(outputs), inputs=DOMAIN)
    outcome = run(simulator)
    assert isinstance(outcome, Success)
    assert outcome.outputs == outputs
    assert all(type(value) is float for value in outcome.outputs.values())
    assert isinstance(simulator, Simulator)


def _raise(error: BaseException):
    raise error


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda **_: math.nan, "'y' must be finite; got nan"),
        (lambda **_: -math.inf, "must be finite"),
        (lambda **_: 10**400, "must be finite"),
        (lambda **_: "1.5", "must be a number"),
        (lambda **_: True, "must be a number"),
        (lambda **_: np.bool_(True), "must be a number"),
        (lambda **_: None, "must be a number"),
        (lambda **_: 1j, "must be a number"),
        (lambda **_: {}, "'y' is missing"),
        (lambda **_: {"Y": 1.0}, "'y' is missing; got 'Y'"),
        (lambda **_: (1.0, 2.0), "must return 1 values"),
        (lambda **_: np.zeros((2, 2)), "must be a number"),
        (lambda **_: 1 / 0, "ZeroDivisionError: division by zero .line .* of test_simulators.py"),
        (lambda **_: _raise(SystemExit("license")), "SystemExit: license"),
        (lambda **_: _raise(MemoryError()), "MemoryError"),
        (lambda mach: mach, "TypeError.*alpha"),
    ],
)
def test_whatever_a_function_does_wrong_is_a_failure_with_a_reason(function, reason) -> None:
    outcome = run(FunctionSimulator(function, "y"))
    assert isinstance(outcome, Failure)
    assert re.search(reason, outcome.reason), outcome.reason
    assert not outcome.interrupted


def test_a_failure_keeps_the_traceback() -> None:
    assert "ZeroDivisionError" in run(FunctionSimulator(lambda **_: 1 / 0, "y")).log


def test_ctrl_c_passes_through_a_function() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(FunctionSimulator(lambda **_: _raise(KeyboardInterrupt()), "y"))


def test_a_module_is_found_in_the_folder_of_the_study_for_the_import_only(tmp_path: Path) -> None:
    (tmp_path / "wing_model.py").write_text(
        "import wing_helper\nclass A:\n  @staticmethod\n  def f(mach, alpha):\n    return mach"
    )
    (tmp_path / "wing_helper.py").write_text("")
    before = list(sys.path)
    simulator = FunctionSimulator("wing_model:A.f", ["y"], folder=tmp_path, inputs=DOMAIN)
    assert sys.path == before
    del sys.modules["wing_model"], sys.modules["wing_helper"]
    assert run(pickle.loads(pickle.dumps(simulator))).outputs == {"y": 2.5}


def test_two_studies_may_name_their_modules_alike(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_model.py").write_text(f"def f(mach, alpha): return {ord(name)}")
    a, b = (FunctionSimulator("same_model:f", "y", folder=tmp_path / name) for name in "ab")
    assert [run(s).outputs["y"] for s in (a, b)] == [97.0, 98.0]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nothing_here:f", "there is none"),
        ("nothing.here:f", "there is none"),
        ("broken_model:f", "ZeroDivisionError"),
        ("exits_model:f", "SystemExit"),
        ("needs_model:f", "needs 'not_there_at_all'"),
        ("syntax_model:f", "SyntaxError"),
        ("fine_model:simulat", "Did you mean 'simulate'"),
        ("fine_model:number", "must be callable"),
        ("fine_model:narrow", "keyword arguments"),
        ("fine_model", "module:name"),
        ("fine_model:f()", "module:name"),
        (":f", "module:name"),
        (3, "must be callable"),
        (None, "must be callable"),
    ],
)
def test_a_function_that_cannot_be_had_is_refused_at_once(place, message, tmp_path: Path) -> None:
    (tmp_path / "broken_model.py").write_text("1 / 0")
    (tmp_path / "exits_model.py").write_text("raise SystemExit(3)")
    (tmp_path / "needs_model.py").write_text("import not_there_at_all")
    (tmp_path / "syntax_model.py").write_text("def f(:")
    (tmp_path / "fine_model.py").write_text("number = 3\ndef simulate(mach, alpha): ...\ndef narrow(mach): ...")
    with pytest.raises(InputError, match=message):
        FunctionSimulator(place, ["y"], folder=tmp_path, inputs=DOMAIN)


@pytest.mark.parametrize("outputs", [[], "", ["a", "a"], [3], None, [" "]])
def test_outputs_are_different_names(outputs) -> None:
    with pytest.raises(InputError, match="outputs must be"):
        FunctionSimulator(float, outputs)


# commands


def test_a_command_reads_json_and_writes_json_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text(
        "import json, sys, os\n"
        "x = json.load(open(sys.argv[1]))\n"
        "json.dump({'lift': x['mach'] * 2, 'cwd': os.getcwd()}, open(sys.argv[2], 'w'))\n"
        "print('hello'); print('careful', file=sys.stderr)\n"
    )
    command = f"{sys.executable} solver.py {{input}} {{output}}"
    simulator = CommandSimulator(command, ["lift"], timeout="1m", folder=tmp_path, inputs=DOMAIN)
    outcome = pickle.loads(pickle.dumps(simulator))({"mach": np.float64(0.1), "alpha": 3}, query_id=7, attempt=2)
    assert isinstance(outcome, Success)
    assert outcome.outputs == {"lift": 0.2}
    folder = Path(outcome.folder)
    assert folder.parent == tmp_path / "runs" / "query-0007" and re.fullmatch(r"attempt-2-[0-9a-f]{8}", folder.name)
    assert json.loads((folder / "input.json").read_text()) == {"mach": 0.1, "alpha": 3}
    assert json.loads((folder / "output.json").read_text())["cwd"] == str(folder)
    assert (folder / "stdout.txt").read_text() == "hello\n"
    assert (folder / "stderr.txt").read_text() == "careful\n"
    assert 0 < outcome.seconds < 30


def test_placeholders_stay_one_argument_and_keep_every_digit(tmp_path: Path) -> None:
    domain = Domain({"wall material": Choice("mild steel", "a;b"), "x": Real(0, 1), "n": Integer(1, 9)})
    command = "printf '%s|' '{wall material}' {x} {n:03d} {query} {attempt} {folder} {{}} {study}"
    simulator = CommandSimulator(command, ["y"], output={"y": r"\|(0\.\d+)\|"}, folder=tmp_path, inputs=domain)
    outcome = simulator({"wall material": "mild steel", "x": 0.1 + 0.2, "n": 4}, query_id=3, attempt=1)
    folder = Path(outcome.folder)
    assert (folder / "stdout.txt").read_text() == f"mild steel|0.30000000000000004|004|3|1|{folder}|{{}}|{tmp_path}|"
    assert outcome.outputs == {"y": 0.1 + 0.2}


def test_a_template_is_filled_in(tmp_path: Path) -> None:
    (tmp_path / "case.inp.template").write_text("&case mach={mach:.3f}, alpha={alpha} {{literal}} /\n")
    simulator = shell('cat "$1"; echo \'{"y": 1}\' > "$2"', tmp_path, input="case.inp.template", inputs=DOMAIN)
    folder = Path(run(simulator).folder)
    assert (folder / "stdout.txt").read_text() == "&case mach=2.500, alpha=10.0 {literal} /\n"
    assert (folder / "case.inp").is_file()


def test_the_command_runs_in_the_folder_of_the_study_if_told(tmp_path: Path) -> None:
    simulator = CommandSimulator("pwd", "y", output={"y": "(1)"}, run_in="study", folder=tmp_path)
    assert (Path(run(simulator).folder) / "stdout.txt").read_text().strip() == str(tmp_path)


def test_a_program_of_the_study_is_found_from_its_folder_even_with_braces_in_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "a {strange} place"
    folder.mkdir()
    (folder / "solver").write_text('#!/bin/sh\necho "y = 3"\n')
    with pytest.raises(InputError, match=r"chmod \+x"):
        CommandSimulator("./solver", "y", folder=folder)
    (folder / "solver").chmod(0o755)
    assert run(CommandSimulator("./solver", "y", output={"y": "y = (.*)"}, folder=folder, inputs=DOMAIN)).outputs == {"y": 3.0}


@pytest.mark.parametrize(
    ("output", "text", "value"),
    [
        ("json", '{"y": 1.5, "other": null}', 1.5),
        ("json", "\ufeff" + '{"y": 2}', 2.0),
        ("csv", "t,y\n0,1\n1,2.5\n\n", 2.5),
        ("csv", " t ; y \r\n0;1\r\n1; 2.5 \r\n", 2.5),
        ("csv", 'name,y\n"a, b",1.0D-03\n', 1e-3),
        ("csv", "t\ty\n0\t-4.\n", -4.0),
        ("csv", "failure_index,y\n0.5,2\n", 2.0),
        ({"y": r"CL\s*=\s*(\S+)"}, "iteration 1: CL = 3\niteration 2: CL = 4.5e0\n", 4.5),
        ({"y": r"^(?:CL|cl): (.*)$"}, "a\nCL: -1.5E+2\nb", -150.0),
    ],
)
def test_results_are_read_as_json_csv_or_by_pattern(output, text, value, tmp_path: Path) -> None:
    (tmp_path / "results.in").write_text(text, encoding="utf-8", newline="")
    simulator = shell(f'cp "{tmp_path}/results.in" "$2"', tmp_path, output=output)
    assert run(simulator).outputs == {"y": value}


def test_results_may_be_a_file_that_the_command_names_itself(tmp_path: Path) -> None:
    simulator = CommandSimulator(
        ["sh", "-c", "echo y > forces.csv; echo 5 >> forces.csv"], "y", output="csv", output_file="forces.csv", folder=tmp_path
    )
    assert run(simulator).outputs == {"y": 5.0}


@pytest.mark.parametrize(
    ("script", "options", "reason"),
    [
        ("echo oops >&2; exit 3", {}, "exit code 3: oops."),
        ("kill -SEGV $$", {}, "signal 11 (SIGSEGV)"),
        ("true", {}, "output.json was not written"),
        ('echo "FAILED to mesh" > "$2"', {}, "says 'FAILED to mesh'"),
        ('echo " fail" > "$2"; exit 4', {}, "says 'fail'"),
        ('echo "fail" > "$2"', {"output": {"y": "(.*)"}, "search": "stdout"}, "says 'fail'"),
        ('printf "" > "$2"', {}, "is empty"),
        ('echo "{\\"y\\": " > "$2"', {}, "not JSON"),
        ('echo "[1]" > "$2"', {}, "JSON object"),
        ('echo "{\\"z\\": 1}" > "$2"', {}, "'y' is missing"),
        ('echo "{\\"y\\": NaN}" > "$2"', {}, "must be finite; got nan"),
        ('echo "{\\"y\\": \\"1\\"}" > "$2"', {}, "must be a number"),
        ('echo "{\\"y\\": true}" > "$2"', {}, "must be a number"),
        ('echo y > "$2"', {"output": "csv"}, "no row"),
        ('printf "y,z\\n1\\n" > "$2"', {"output": "csv"}, "must have 2 values"),
        ('printf "y\\nabc\\n" > "$2"', {"output": "csv"}, "must be a number; got 'abc'"),
        ('printf "y,z\\n,1\\n" > "$2"', {"output": "csv"}, "is empty"),
        ('printf "z\\n1\\n" > "$2"', {"output": "csv"}, "'y' is missing"),
        ("echo y = none", {"output": {"y": "y = (.*)"}, "search": "stdout"}, "must be a number; got 'none'"),
        ("echo nothing", {"output": {"y": "y = (.*)"}, "search": "stdout"}, "was not found"),
        ('mkdir "$2"', {}, "could not be read"),
        ("sleep 20", {"timeout": 0.2}, "timeout of 200ms"),
    ],
)
def test_a_run_that_fails_says_why(script, options, reason, tmp_path: Path) -> None:
    outcome = run(shell(script, tmp_path, **options))
    assert isinstance(outcome, Failure)
    assert reason in outcome.reason
    assert outcome.folder.startswith(str(tmp_path / "runs/query-0007/attempt-1-"))
    assert not outcome.interrupted
    assert outcome.seconds < 10


def test_a_failure_carries_the_end_of_stderr(tmp_path: Path) -> None:
    log = run(shell("seq 1 5000 >&2; echo last >&2; exit 1", tmp_path)).log
    assert log.endswith("5000\nlast")
    assert len(log.splitlines()) == 20


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z" if Path("/proc").is_dir() else True
    except (ProcessLookupError, FileNotFoundError):
        return False


def gone(pid: int) -> bool:
    end = time.monotonic() + 3
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_a_timeout_ends_grandchildren_too_and_lets_the_command_tidy_up(tmp_path: Path) -> None:
    script = "(sleep 60 & echo $! > ../grandchild; wait) & trap 'echo tidy > tidied; exit 0' TERM; sleep 60 & wait"
    outcome = run(shell(script, tmp_path, timeout="500ms"))
    assert "timeout" in outcome.reason
    assert (Path(outcome.folder) / "tidied").exists()
    assert gone(int((Path(outcome.folder).parent / "grandchild").read_text()))


def test_a_command_that_will_not_end_is_killed(tmp_path: Path) -> None:
    start = time.monotonic()
    outcome = run(shell("trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done", tmp_path, timeout=0.3))
    assert time.monotonic() - start < 5
    assert gone(int((Path(outcome.folder) / "pid").read_text()))


def test_children_left_behind_by_a_finished_command_are_ended(tmp_path: Path) -> None:
    outcome = run(shell('sleep 60 & echo $! > child; echo "{\\"y\\": 1}" > "$2"', tmp_path))
    assert isinstance(outcome, Success)
    assert gone(int((Path(outcome.folder) / "child").read_text()))


def test_results_of_a_run_that_was_cut_off_are_not_taken_for_those_of_the_next(tmp_path: Path) -> None:
    assert isinstance(run(shell('echo "{\\"y\\": 1}" > "$2"', tmp_path)), Success)
    assert "not written" in run(shell("true", tmp_path)).reason
    assert len(list(tmp_path.glob("runs/query-0007/attempt-1-*/output.json"))) == 1


def test_a_program_that_vanishes_and_a_folder_that_cannot_be_made_are_failures(tmp_path: Path) -> None:
    program = tmp_path / "solver"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    simulator = CommandSimulator("./solver", "y", folder=tmp_path)
    program.unlink()
    assert "could not be run" in run(simulator).reason
    simulator = shell("true", tmp_path, runs="other")
    (tmp_path / "other").write_text("in the way")
    assert "could not be run" in run(simulator).reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"command": ""}, "a command must be"),
        ({"command": []}, "a command must be"),
        ({"command": 3}, "a command must be"),
        ({"command": ["echo", 3]}, "a command must be"),
        ({"command": "echo 'open"}, "Close the quotes"),
        ({"command": "no-such-program-anywhere {input}"}, "on the PATH"),
        ({"command": "local {input}"}, "Write ./local"),
        ({"command": "./missing {input}"}, "there is none at"),
        ({"command": "echo {mahc}"}, "Did you mean 'mach'"),
        ({"command": "echo {"}, "literally"),
        ({"command": "echo }"}, "literally"),
        ({"command": "echo {alpha:q}"}, "must suit its value"),
        ({"timeout": "soon"}, "timeout of a command"),
        ({"timeout": 0}, "timeout of a command"),
        ({"input": "xml"}, "there is no file"),
        ({"input": ""}, "input must be"),
        ({"input": "bad.tmpl"}, "single '{' in line 2"),
        ({"input": "unknown.tmpl"}, r"template unknown\.tmpl.*\{beta\}"),
        ({"input": "binary.tmpl"}, "text in UTF-8"),
        ({"output": "jsn"}, "Did you mean 'json'"),
        ({"output": 3}, "output must be"),
        ({"output": {}}, "'y' has none"),
        ({"output": {"x": "(a)"}}, "got one for 'x'"),
        ({"output": {"y": "(a"}}, "regular expression"),
        ({"output": {"y": "a"}}, "one group"),
        ({"output": {"y": "(a)(b)"}}, "one group"),
        ({"output": {"y": 3}}, "'y' has none"),
        ({"search": "stdout"}, "needs patterns"),
        ({"search": "std"}, "Did you mean 'stdout'"),
        ({"run_in": "here"}, "run_in must be one of"),
        ({"runs": "local"}, "is a file"),
        ({"output_file": "/abs.csv"}, "in the folder of the run"),
        ({"output_file": "../up.csv"}, "in the folder of the run"),
        ({"output_file": "stdout.txt"}, "is ours"),
        ({"outputs": []}, "outputs must be"),
        ({"inputs": "mach"}, "inputs must be"),
        ({"inputs": ["output"], "command": "echo {output}"}, "must mean one thing"),
    ],
)
def test_a_misconfigured_command_is_refused_when_it_is_made(options, message, tmp_path: Path) -> None:
    (tmp_path / "local").write_text("")
    (tmp_path / "bad.tmpl").write_text("fine\n{ not\n")
    (tmp_path / "unknown.tmpl").write_text("{beta}")
    (tmp_path / "binary.tmpl").write_bytes(b"\xff\xfe")
    complete = {"command": "echo {input} {mach}", "outputs": ["y"], "folder": tmp_path, "inputs": DOMAIN} | options
    with pytest.raises(InputError, match=message):
        CommandSimulator(**complete)


# readers: whatever a file holds, outputs or a reason

_TEXTS = st.one_of(
    st.text(max_size=60),
    st.binary(max_size=60).map(lambda data: data.decode("utf-8-sig", errors="replace")),
    st.lists(
        st.sampled_from(["y", "z", ",", ";", "\t", "\n", "\r", '"', "1", "1e999", "nan", "{", "}", ":", "[", "\0", " "])
    ).map("".join),
    st.dictionaries(st.sampled_from(["y", "z"]), st.one_of(st.floats(), st.none(), st.text(max_size=3), st.booleans())).map(
        json.dumps
    ),
)


@given(_TEXTS)
@example("[" * 100_000)
@example('{"y": ' + "9" * 5000 + "}")
@example('{"y": 1e999}')
@example("y\n" + "1" * 200_000)
@example('y\n"open')
def test_readers_return_finite_outputs_or_a_reason(text: str) -> None:
    pattern = {"y": re.compile("y(.*)")}
    for read in (
        lambda: readers.read_json(text, ["y"]),
        lambda: readers.read_csv(text, ["y"]),
        lambda: readers.read_patterns(text, pattern),
        lambda: readers.check_not_failed("fail" + text, ["y"]) or {"y": 0.0},
    ):
        try:
            assert math.isfinite(read()["y"])
        except BadOutput as reason:
            assert 0 < len(str(reason)) < 800


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(st.binary(max_size=80), _TEXTS.map(lambda t: t.encode(errors="replace"))),
    kind=st.sampled_from(["json", "csv", "pattern"]),
)
def test_whatever_a_command_writes_the_run_has_an_outcome(data: bytes, kind: str, tmp_path: Path) -> None:
    (tmp_path / "results").write_bytes(data)
    output = {"y": "(.*)"} if kind == "pattern" else kind
    outcome = run(shell(f'cp "{tmp_path}/results" "$2"', tmp_path, output=output))
    assert isinstance(outcome, Failure) or math.isfinite(outcome.outputs["y"])


# tables

ROWS = [
    {"mach": 1.0, "alpha": 0.0, "lift": 0.5, "note": "a"},
    {"mach": 1.0 / 3, "alpha": 10.0, "lift": 0.7, "note": "b"},
    {"mach": 1.0, "alpha": 0.0, "lift": 0.6, "note": "replicate"},
    {"mach": 4.0, "alpha": 20.0, "lift": math.nan, "note": "failed"},
]


@pytest.fixture(params=["list", "frame", "csv", "semicolons"])
def table(request, tmp_path: Path):
    if request.param == "list":
        return ROWS
    frame = pd.DataFrame(ROWS)
    if request.param == "frame":
        return frame
    frame.to_csv(tmp_path / "runs.csv", index=False, sep="," if request.param == "csv" else ";")
    return tmp_path / "runs.csv"


def test_a_table_serves_its_rows(table) -> None:
    simulator = pickle.loads(pickle.dumps(TableSimulator(table, DOMAIN, ["lift"])))
    assert run(simulator, {"mach": 1 / 3 + 1e-12, "alpha": 10}).outputs == {"lift": 0.7}
    assert run(simulator, ROWS[0] | {}, row=2).outputs == {"lift": 0.6}
    first, second, third = (run(simulator, {"mach": 1.0, "alpha": 0.0}, attempt=k) for k in (1, 2, 3))
    assert (first.outputs, second.outputs) == ({"lift": 0.5}, {"lift": 0.6})
    assert "holds 2 run(s)" in third.reason
    assert "no row of 4" in run(simulator, {"mach": 1.00001, "alpha": 0.0}).reason
    assert "failed run" in run(simulator, {"mach": 4.0, "alpha": 20.0}).reason
    assert "must be in [0.2, 6.0]" in run(simulator, {"mach": 9.0, "alpha": 20.0}).reason
    pool = simulator.pool()
    assert len(pool) == len(simulator) == 4
    assert pool.points(1) == [{"mach": 1 / 3, "alpha": 10.0}]


def test_a_table_keeps_options_and_integers(tmp_path: Path) -> None:
    domain = Domain(material=Choice("NA", "1", "steel"), n=Integer(1, 3), flag=Choice(True, False), k=Choice(1, 2.5))
    (tmp_path / "t.csv").write_text("material,n,flag,k,y\nNA,1,true,1,0.5\n1,2,False,2.5,fail\nsteel,3.0,True,1.0,2\n")
    simulator = TableSimulator("t.csv", domain, "y", folder=tmp_path)
    assert simulator.pool().points([0, 1]) == [
        {"material": "NA", "n": 1, "flag": True, "k": 1},
        {"material": "1", "n": 2, "flag": False, "k": 2.5},
    ]
    assert run(simulator, {"material": "steel", "n": 3, "flag": True, "k": 1}).outputs == {"y": 2.0}
    assert "must be a number; got 'fail'" in run(simulator, {}, row=1).reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mach,alpha\n1,2\n", "no 'lift'"),
        ("mach,alfa,lift\n1,2,3\n", "no 'alpha'. Did you mean 'alfa'"),
        ("mach,mach,alpha,lift\n1,1,2,3\n", "'mach' twice"),
        ("mach,alpha,lift\n", "at least one candidate"),
        ("", "no 'mach'"),
        ("mach,alpha,lift\n1,2\n", "line 2 has 2"),
        ("mach,alpha,lift\n1,,3\n", "'alpha' must be a finite number in every row; it is blank in line 2"),
        ("mach,alpha,lift\n1,x,3\n", "got 'x' in line 2"),
        ("mach,alpha,lift\n1,nan,3\n", "got 'nan' in line 2"),
        ("mach,alpha,lift\n1,99,3\n", r"alpha must be in \[-5.0, 30.0\] deg; got 99"),
        (None, "there is none at"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_an_unusable_table_is_refused_when_it_is_read(text, message, tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises((DataError, DomainError), match=message):
        TableSimulator(path, DOMAIN, ["lift"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=60), _TEXTS.map(lambda t: ("mach,alpha,y\n1,2," + t).encode(errors="replace"))))
def test_any_file_is_a_table_or_a_clear_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "any.csv").write_bytes(data)
    try:
        assert len(TableSimulator(tmp_path / "any.csv", DOMAIN, ["y"])) > 0
    except HyperleafError as error:
        assert str(error)


def test_a_row_beyond_the_table_is_an_error_of_the_caller() -> None:
    with pytest.raises(InputError, match="from 0 to 3; got 4"):
        run(TableSimulator(ROWS, DOMAIN, "lift"), row=4)


# from what a person writes


def test_each_form_becomes_its_simulator(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("mach,alpha,y\n1,2,3\n")
    (tmp_path / "form_model.py").write_text("def f(mach, alpha): return 1.0")
    forms = {
        "form_model:f": FunctionSimulator,
        "runs.csv": TableSimulator,
        "echo {mach}": CommandSimulator,
        "echo hello": CommandSimulator,
        Path("runs.csv"): TableSimulator,
        (lambda mach, alpha: 1.0): FunctionSimulator,
    }
    for spec, kind in forms.items():
        assert type(as_simulator(spec, ["y"], domain=DOMAIN, folder=tmp_path)) is kind
    configs = [{"function": "form_model:f"}, {"table": "runs.csv"}, {"command": "echo {input}", "timeout": "2h", "runs": "r"}]
    for config, kind in zip(configs, (FunctionSimulator, TableSimulator, CommandSimulator), strict=True):
        made = as_simulator(config, ["y"], domain=DOMAIN, folder=tmp_path)
        assert type(made) is kind
        assert as_simulator(made, ["y"]) is made


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"comand": "x"}, "Did you mean 'command'"),
        ({"command": "echo", "time_out": 3}, "Did you mean 'timeout'"),
        ({"command": "echo", "function": "a:b"}, "exactly one of"),
        ({"timeout": 3}, "exactly one of .* got none"),
        ({}, "exactly one of"),
        ({"function": "math:sqrt", "timeout": 3}, "got 'timeout'. Drop it"),
        ({"table": "x.csv", "runs": "r"}, "got 'runs'"),
        ({"table": "x.csv"}, "needs the Domain"),
        ({3: 4}, "got 3"),
        (3, "a simulator must be"),
        (None, "a simulator must be"),
        ("solver", "a simulator must be"),
        ("", "a simulator must be"),
    ],
)
def test_a_wrong_form_is_refused_with_a_remedy(spec, message) -> None:
    with pytest.raises(InputError, match=message):
        as_simulator(spec, ["y"])


def test_outputs_must_be_known_and_given() -> None:
    with pytest.raises(InputError, match="must know its outputs"):
        as_simulator(float)
    with pytest.raises(InputError, match="must give the output 'z'"):
        as_simulator(FunctionSimulator(float, "y"), ["y", "z"])
