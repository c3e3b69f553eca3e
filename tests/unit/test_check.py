"""`hyperleaf check` says what a study would do, or names every mistake with its line; it writes nothing."""

import json
import random
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hyperleaf.cli
from hyperleaf.cli import app
from hyperleaf.config import ConfigError, parse_toml
from hyperleaf.config.checking import Checked
from hyperleaf.config.places import line_of, lines_of

TEMPLATE = (Path(hyperleaf.cli.__file__).parent / "study.toml").read_text(encoding="utf-8")
WRONG = """[study]
name = "x"
constraints = ["a + b < 1"]

[inputs]
a = { low = 0, high = 1 }
b = { low = 2, high = 1 }
c = { lo = 2, high = 1 }
[outputs]
y = { noise = "lerned", weight = -1 }

[stop]
queries = 0
querries = 3
[stopp]
[design]
kind = "sobl"
"""
DEEPER = """[study]
name = "x"
[inputs]
a = { low = 0, high = 1 }
[outputs]
y = { noise = 0.1 }
[surrogate]
leafs = 3
[acquisition]
kind = "entropi"
[pool]
table = "no.csv"
[test]
table = "none.csv"
[simulator]
command = "no-such-program {input} {outputt}"
"""


def check(folder: Path, text: str, *options: str):
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, ["check", str(folder / "study.toml"), *options])


def test_every_mistake_of_a_file_is_named_with_its_line(tmp_path):
    found = json.loads(check(tmp_path, WRONG, "--json").stdout)
    assert not found["valid"]
    lines = [(one["line"], one["words"]) for one in found["mistakes"]]
    wanted = [
        (7, "must have low < high"),
        (8, "did you mean 'low'?"),
        (10, "'lerned'. Did you mean"),
        (10, "outputs.y.weight must be greater"),
        (13, "stop.queries must be greater"),
        (14, "did you mean 'queries'?"),
        (15, "[stopp] is no section"),
        (17, "design.kind must be 'sobol'"),
    ]
    assert len(lines) == len(wanted)
    for (line, words), (number, part) in zip(lines, wanted, strict=True):
        assert (line, part in words) == (number, True), words
    printed = check(tmp_path, WRONG)
    assert printed.exit_code == 1
    assert printed.stderr.count(f"{tmp_path / 'study.toml'}:") == len(wanted)


def test_what_only_other_rooms_know_is_named_too(tmp_path):
    found = json.loads(check(tmp_path, DEEPER, "--json").stdout)
    lines = [(one["line"], one["words"]) for one in found["mistakes"]]
    assert [line for line, _ in lines] == [8, 10, 12, 14, 15]
    for (_, words), part in zip(lines, ["'leaves'?", "'entropy'?", "no.csv", "none.csv", "'output'?"], strict=True):
        assert part in words


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[study]\nname = \n", 2, "not valid TOML"),
        (DEEPER.partition("[surrogate]")[0] + "[limits]\nz = { max = 1 }\n", 8, "no output"),
        (DEEPER.partition("[surrogate]")[0] + "[stop]\nrmse = { z = 1.0 }\n", 8, "no output"),
        (DEEPER.partition("[surrogate]")[0] + "[limits]\ny = { max = 1 }\n[safety]\nramps = { b = 1 }\n", 10, "no input"),
        (DEEPER.partition("[surrogate]")[0].replace("y =", "a ="), 4, "different names"),
        (DEEPER.partition("[surrogate]")[0].replace('"x"', '"x"\nconstraints = ["q <= 1"]'), 3, "must name at least one axis"),
    ],
)
def test_mistakes_between_sections_have_a_line(tmp_path, text, line, words):
    (found,) = json.loads(check(tmp_path, text, "--json").stdout)["mistakes"]
    assert found["line"] == line
    assert words in found["words"]


def test_a_right_file_says_what_it_would_do_and_nothing_is_written(tmp_path):
    done = check(tmp_path, TEMPLATE)
    assert done.exit_code == 0, done.stderr
    for words in ("'booster' in sqlite:///booster.db, seed 1, not begun", "mach 0.2 to 6", "a person", "after 60 finished runs"):
        assert words in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["study.toml"]


def test_a_study_that_has_begun_is_held_against_its_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = DEEPER.partition("[surrogate]")[0] + '[surrogate]\nkind = "stationary"\n[stop]\nqueries = 9\n'
    Path("study.toml").write_text(text)
    assert CliRunner().invoke(app, ["ask"]).exit_code == 0
    assert "begun, 0 finished of 1 asked" in check(tmp_path, text).stdout
    assert "changed since: [stop]" in check(tmp_path, text.replace("9", "10")).stdout
    (found,) = json.loads(check(tmp_path, text.replace("high = 1", "high = 2"), "--json").stdout)["mistakes"]
    assert "[inputs] of the study 'x' differs" in found["words"]


def test_lines_are_found_through_all_that_toml_allows():
    text = '''a.b = 1 # = [x]
"q.r" = """
[no]
"""
[t."u v"]
k = [
  1, # ]
  { m = "}", n.o = 2 },
]
[[s]]
z = "["
[[s]]
z = 1979-05-27
'''
    tomllib.loads(text)
    lines = lines_of(text)
    assert {path: line for path, line in lines.items() if len(path) > 1 or path == ("q.r",)} == {
        ("a", "b"): 1,
        ("q.r",): 2,
        ("t", "u v"): 5,
        ("t", "u v", "k"): 6,
        ("t", "u v", "k", "m"): 8,
        ("t", "u v", "k", "n"): 8,
        ("t", "u v", "k", "n", "o"): 8,
        ("s", "z"): 11,
    }
    assert line_of(lines, ("t", "u v", "nothing")) == 5 and line_of(lines, ("nothing",)) is None


def test_check_and_read_agree_on_what_is_wrong():
    """Whatever happens to a line of the template: either both take it, or both refuse it."""
    rng = random.Random(0)
    rows = TEMPLATE.splitlines()
    for _ in range(300):
        changed = list(rows)
        row = rng.randrange(len(rows))
        at = rng.randrange(len(rows[row]) + 1)
        changed[row] = (
            rows[row][:at] + rng.choice(["x", "1", '"', "=", "[", "}", ",", "-", ""]) + rows[row][at + rng.randrange(2) :]
        )
        text = "\n".join(changed)
        try:
            parse_toml(text)
            right = True
        except ConfigError:
            right = False
        assert (not Checked(text, "study.toml").mistakes) == right, changed[row]
