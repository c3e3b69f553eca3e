"""A study file is read, completed and checked; whatever is wrong with it gets a sentence that says where."""

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

import hyperleaf.cli
from hyperleaf.config import ConfigError, Definition, from_sections, parse_toml, read_toml
from hyperleaf.errors import HyperleafError
from hyperleaf.study.tables import read_runs

TEMPLATE = (Path(hyperleaf.cli.__file__).parent / "study.toml").read_text(encoding="utf-8")
SMALL = """
[study]
name = "small"
[inputs]
x = { low = 0, high = 1 }
[outputs]
y = {}
"""


def test_template_is_valid_and_so_is_what_it_comments_out() -> None:
    definition = parse_toml(TEMPLATE)
    assert definition.study.name == "booster"
    assert definition.stop.queries == 60
    lines = [
        line.removeprefix("# ") if (line.startswith("# ") and "=" in line) or line.startswith("# [") else line
        for line in TEMPLATE.splitlines()
    ]
    everything = "\n".join(line for line in lines if not line.startswith(("function", 'table = "runs')))
    full = parse_toml(everything)
    assert set(full.make_domain().names) == {"mach", "alpha", "density", "blades", "fuel"}
    assert full.outputs["drag"].weight == 0.5
    assert full.stop.time == 8 * 3600.0
    assert full.pool is not None and full.test is not None
    assert full.simulator is not None and full.simulator["timeout"] == "2h"


def test_defaults_are_filled_in() -> None:
    definition = parse_toml(SMALL)
    assert definition.surrogate.kind == "hhk"
    assert definition.design.size == 5
    assert definition.outputs["y"].noise == "learned"
    assert definition.make_domain().names == ("x",)


# Each: what is appended to, or replaced in, a small valid file; and a part of the sentence it gets.
MALFORMED: dict[str, tuple[str, str]] = {
    "empty": ("", "must have a section [study]"),
    "not TOML": ("name = ", "is not valid TOML"),
    "control characters": ("\x00\x01", "is not valid TOML"),
    "number of thousands of digits": ("a = " + "9" * 5000, "is not valid TOML"),
    "nested too deeply for TOML": (SMALL + "[simulator]\na = " + "[" * 2000 + "]" * 2000, "nested too deeply"),
    "nested too deeply": (SMALL + "[surrogate]\na = " + "[" * 100 + "]" * 100, "must not be nested more than"),
    "key twice": (SMALL + "[stop]\nqueries = 1\nqueries = 2", "is not valid TOML"),
    "unknown section": (SMALL + "[stopp]\nqueries = 1", "did you mean 'stop'?"),
    "domain is called inputs": (SMALL + "[domain]\nx = 1", "[domain] is no section"),
    "section that is a list": (SMALL + "[[stop]]\nqueries = 1", "stop must be a table of settings"),
    "study that is a list": (SMALL.replace("[study]", "[[study]]"), "must have a section [study]"),
    "no outputs": (SMALL.replace("y = {}", ""), "must have a section [outputs]"),
    "no inputs": (SMALL.replace("x = { low = 0, high = 1 }", ""), "must have a section [inputs]"),
    "no name": (SMALL.replace('name = "small"', "seed = 1"), "study.name is missing"),
    "name that is a number": (SMALL.replace('"small"', "5"), "study.name must be text; got 5"),
    "blank name": (SMALL.replace('"small"', '" "'), "without space at its ends"),
    "name of two lines": (SMALL.replace('"small"', r'"a\nb"'), "printable"),
    "long name": (SMALL.replace('"small"', '"' + "a" * 300 + '"'), "at most 200 characters"),
    "negative seed": (SMALL.replace('"small"', '"small"\nseed = -1'), "study.seed must be greater than or equal to 0"),
    "seed with a fraction": (SMALL.replace('"small"', '"small"\nseed = 1.5'), "study.seed must be a whole number"),
    "seed beyond 64 bits": (SMALL.replace('"small"', '"small"\nseed = ' + "9" * 40), "below 2**63"),
    "storage that is no text": (SMALL.replace('"small"', '"small"\nstorage = 5'), "study.storage must be text"),
    "description with NUL": (SMALL.replace('"small"', '"small"\ndescription = "\\u0000"'), "without NUL"),
    "constraints that are a number": (SMALL.replace('"small"', '"small"\nconstraints = 5'), "must be a list of texts"),
    "constraint that is no expression": (SMALL.replace('"small"', '"small"\nconstraints = ["x <"]'), "must be an expression"),
    "constraint that calls": (
        SMALL.replace('"small"', '"small"\nconstraints = ["__import__(\'os\')"]'), "must name at least one axis"),
    "bounds swapped": (SMALL.replace("high = 1", "high = -1"), "must have low < high"),
    "bound missing": (SMALL.replace("low = 0, ", ""), "inputs.x must have low"),
    "bound that is text": (SMALL.replace("low = 0", "low = 'a'"), "low of a Real must be a finite number"),
    "bound that is a date": (SMALL.replace("low = 0", "low = 1979-05-27"), "must be a finite number"),
    "bound that is infinite": (SMALL.replace("high = 1", "high = inf"), "must be a finite number"),
    "log axis from zero": (SMALL.replace("high = 1", "high = 1, log = true"), "must have low > 0"),
    "log that is text": (SMALL.replace("high = 1", "high = 1, log = 'yes'"), "inputs.x.log must be true or false"),
    "input that is a number": (SMALL.replace("{ low = 0, high = 1 }", "5"), "inputs.x must be a table such as"),
    "unknown key of an input": (SMALL.replace("low = 0", "lower = 0"), "inputs.x has no key 'lower'; did you mean 'low'?"),
    "key of an input like no other": (
        SMALL.replace("low = 0", "zzzz = 0"), "no key 'zzzz'; there are low, high, log, unit, integer, options."),
    "one option": (SMALL.replace("low = 0, high = 1", "options = [1]"), "at least two options"),
    "options that are text": (SMALL.replace("low = 0, high = 1", "options = 'ab'"), "options must be a list"),
    "options and bounds": (SMALL.replace("low = 0, high = 1", "options = [1, 2], low = 0"), "either options or low"),
    "unit that is a number": (SMALL.replace("high = 1", "high = 1, unit = 5"), "inputs.x.unit must be text"),
    "input named like a column": (SMALL.replace("x = {", "id = {"), "name the input differently"),
    "output named like a column": (SMALL.replace("y = {}", "state = {}"), "name the output differently"),
    "output named like an input": (SMALL.replace("y = {}", "x = {}"), "'x' is both"),
    "output with a blank in its name": (SMALL.replace("y = {}", "'a b' = {}"), "must be a Python name"),
    "output that is a number": (SMALL.replace("y = {}", "y = 5"), "outputs.y must be a table of settings"),
    "negative noise": (SMALL.replace("y = {}", "y = { noise = -1 }"), "noise must be"),
    "misspelt noise": (SMALL.replace("y = {}", 'y = { noise = "nune" }'), 'Did you mean "none"?'),
    "noise of a surrogate": (SMALL + '[surrogate]\nnoise = "none"\n', "noise must be a setting of an output"),
    "noise that is not a number": (SMALL.replace("y = {}", "y = { noise = nan }"), "outputs.y.noise must be finite"),
    "range of one number": (SMALL.replace("y = {}", "y = { range = [1] }"), "range must be two numbers"),
    "no weight at all": (SMALL.replace("y = {}", "y = { weight = 0 }"), "at least one output must have a weight > 0"),
    "misspelt setting of an output": (SMALL.replace("y = {}", "y = { nois = 1 }"), "did you mean 'noise'?"),
    "unknown surrogate": (SMALL + "[surrogate]\nkind = 'tree'", "surrogate.kind must be 'hhk', 'stationary'"),
    "surrogate that is a number": ("surrogate = 5\n" + SMALL, "surrogate must be a table of settings"),
    "date in an option": (SMALL + "[surrogate]\nleaves = 1979-05-27", "surrogate.leaves must be text, a number"),
    "infinite option": (SMALL + "[surrogate.inference]\nparticles = inf", "surrogate.inference.particles must be finite"),
    "misspelt setting": (SMALL + "[acquisition]\nkinds = 'entropy'", "acquisition.kinds is no setting; did you mean 'kind'?"),
    "empty design": (SMALL + "[design]\nsize = 0", "design.size must be greater than or equal to 1"),
    "unknown design": (SMALL + "[design]\nkind = 'grid'", "design.kind must be 'sobol', 'lhs' or 'uniform'"),
    "pool without a table": (SMALL + "[pool]", "pool.table is missing"),
    "simulator that is a number": ("simulator = 5\n" + SMALL, "simulator must be a table of settings"),
    "no queries": (SMALL + "[stop]\nqueries = 0", "stop.queries must be greater than or equal to 1"),
    "time that is no duration": (SMALL + "[stop]\ntime = 'soon'", "stop.time: a duration must be"),
    "no time": (SMALL + "[stop]\ntime = 0", "at most 1e+10 seconds; got 0. Write it like"),
    "error of an unknown output": (SMALL + "[stop]\nrmse = { z = 1 }", "stop.rmse names 'z'"),
    "negative error": (SMALL + "[stop]\nrmse = -1", "rmse must be a number > 0"),
    "stagnation of one": (SMALL + "[stop]\nstagnation = 1", "stop.stagnation must be greater than or equal to 2"),
    "yes for true": (SMALL + "[failures]\navoid = 'yes'", "failures.avoid must be true or false"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_study_gets_a_sentence_that_says_what_is_wrong(name: str) -> None:
    text, words = MALFORMED[name]
    with pytest.raises(ConfigError) as caught:
        parse_toml(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("; got ") <= 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no study file"),
        (b"\xff\xfe\x00", "must be UTF-8 text"),
        ("folder", "is a folder"),
        (b"#" * (5 * 2**20), "must be smaller than 4 MiB"),
    ],
)
def test_unreadable_file(tmp_path: Path, content: bytes | str | None, words: str) -> None:
    path = tmp_path / "study.toml"
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        read_toml(path)


def test_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert read_toml(path) == parse_toml(SMALL)


# --- round trip

names = st.text(st.characters(categories=["L", "Nd", "P", "S"]), min_size=1, max_size=12)
numbers = st.floats(-1e6, 1e6)
outputs = st.fixed_dictionaries(
    {},
    optional={
        "noise": st.one_of(st.sampled_from(["learned", "none"]), st.floats(0, 1e3), st.integers(0, 5)),
        "weight": st.floats(0.001, 10),
        "unit": names,
        "range": st.tuples(st.floats(-10, 0), st.floats(0.1, 10)).map(list),
    },
)
inputs = st.one_of(
    st.builds(lambda low, width, unit: {"low": low, "high": low + width, "unit": unit}, numbers, st.floats(0.1, 1e3), names),
    st.builds(lambda low, count: {"low": low, "high": low + count, "integer": True}, st.integers(-99, 99), st.integers(1, 50)),
    st.builds(lambda options: {"options": options}, st.lists(names, min_size=2, max_size=5, unique=True)),
    st.builds(lambda low: {"low": low, "high": 2 * low, "log": True}, st.floats(1e-6, 1e6)),
)
studies = st.fixed_dictionaries(
    {
        "study": st.fixed_dictionaries({"name": names}, optional={"seed": st.integers(0, 2**63 - 1), "description": names}),
        "inputs": st.dictionaries(names.map(lambda name: "in " + name), inputs, min_size=1, max_size=3),
        "outputs": st.dictionaries(st.sampled_from(["y", "lift", "drag"]), outputs, min_size=1),
    },
    optional={
        "surrogate": st.fixed_dictionaries({"kind": st.sampled_from(["hhk", "deep"])}, optional={"leaves": st.integers(1, 9)}),
        "design": st.fixed_dictionaries({"size": st.integers(1, 100)}),
        "stop": st.fixed_dictionaries(
            {}, optional={"queries": st.integers(1, 99), "time": st.floats(1, 1e5), "rmse": st.just(0.1)}
        ),
        "simulator": st.fixed_dictionaries({"command": st.just("./a {input}"), "timeout": st.sampled_from(["2h", 5])}),
        "failures": st.fixed_dictionaries({"retries": st.integers(0, 9), "avoid": st.booleans()}),
    },
)


@given(studies)
def test_what_a_store_keeps_is_the_definition(values: dict) -> None:
    definition = from_sections(values)
    kept = definition.to_json()
    again = Definition.from_json(kept)
    assert again == definition
    assert again.to_json() == kept
    assert again.make_domain() == definition.make_domain()


# --- fuzzing


@given(st.one_of(st.text(max_size=300), st.text(alphabet="[]{}=\".,'\n #a1-:T", max_size=300)))
@example("a = " + "9" * 5000)
@settings(max_examples=100)
def test_no_text_is_more_than_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        parse_toml(text)


FRAGMENTS = ["nan", "-inf", "1979-05-27", "[]", "{}", '""', "true", "-1", "9" * 40, '"a"', "[[1]]", "0", "1e400", "'\\u0000'"]


@given(st.integers(0, 2**32), st.sampled_from([TEMPLATE, SMALL]))
@settings(max_examples=200)
def test_no_change_of_a_valid_file_is_more_than_a_config_error(seed: int, base: str) -> None:
    rng = random.Random(seed)
    lines = [line for line in base.splitlines() if line.strip() and not line.startswith("#")]
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(lines))
        line, how = lines[i], rng.randrange(6)
        if how == 0 and "=" in line:  # another value
            lines[i] = line[: line.rindex("=") + 1] + " " + rng.choice(FRAGMENTS) + (" }" if "{" in line else "")
        elif how == 1 and line:  # another character
            place = rng.randrange(len(line))
            lines[i] = (
                line[:place]
                + chr(rng.choice([0, 9, 34, 39, 61, 91, 93, 123, 0x2603, rng.randrange(32, 0x3000)]))
                + line[place + 1 :]
            )
        elif how == 2 and len(lines) > 1:
            del lines[i]
        elif how == 3:
            lines.insert(rng.randrange(len(lines)), line)
        elif how == 4:
            lines[i], lines[0] = lines[0], line
        elif "=" in line:  # another key
            lines[i] = rng.choice(["low", "kind", "name", "options", "model_config", "__class__"]) + line[line.index("=") :]
    try:
        definition = parse_toml("\n".join(lines))
    except ConfigError:
        return
    assert Definition.from_json(definition.to_json()) == definition


@given(
    st.one_of(st.binary(max_size=200), st.text(alphabet="xky,;\t\n\"'0123456789.-e na", max_size=200).map(str.encode)),
    st.booleans(),
)
@settings(max_examples=150)
def test_no_csv_is_more_than_a_hyperleaf_error(tmp_path_factory: pytest.TempPathFactory, body: bytes, headed: bool) -> None:
    domain = parse_toml(SMALL.replace("high = 1 }", "high = 1 }\nk = { options = ['a', 'b'] }")).make_domain()
    path = tmp_path_factory.getbasetemp() / "fuzzed.csv"
    path.write_bytes((b"x,k,y\n" if headed else b"") + body)
    try:
        runs = read_runs(path, domain, ("y",))
    except HyperleafError:
        return
    assert all(set(point) == {"x", "k"} and set(values) == {"y"} for point, values in runs)
