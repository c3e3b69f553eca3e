"""Commands that need no surrogate load none: neither JAX nor pandas nor SciPy, which take seconds."""

import random
import subprocess
import sys

import pandas as pd
import pytest

from hyperleaf.domain import Choice, Domain, Integer, Real
from hyperleaf.study import Study, tables

HEAVY = ("jax", "jaxlib", "pandas", "scipy", "sklearn", "numpyro", "plotly", "matplotlib", "alembic")
STUDY = (
    '[study]\nname = "s"\n[inputs]\na = { low = 0.0, high = 1.0 }\nk = { low = 1, high = 9, integer = true }\n[outputs]\ny = {}\n'
    '[surrogate]\nkind = "stationary"\ninference = "map"\n'
)
SURROGATE = {"kind": "stationary", "inference": "map"}
DOMAIN = Domain(a=Real(0, 1), k=Integer(1, 9))
CODE = """
import sys
from hyperleaf.cli import main
sys.argv = ["hyperleaf", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("HEAVY", [name for name in %r if name in sys.modules])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light")
    (folder / "study.toml").write_text(STUDY)
    study = Study.create("s", DOMAIN, "y", surrogate=SURROGATE, storage=f"sqlite:///{folder / 'study.db'}")
    first, second, _ = study.ask(3, owner="person")
    study.tell(first, y=0.1)
    study.tell_failed(second, "no, really")
    study.storage.put_metrics("s", 1, {"y": {"expected_rmse": 0.1, "trusted_rmse": 0.1, "scale": 1.0}})
    (folder / "runs.csv").write_text("a,k,y\n0.5,3,0.4\n")
    return folder


@pytest.mark.parametrize(
    "command",
    ["status", "status --json", "ask --again", "tell 3 y=0.5", "tell 3 --failed no", "tell --csv runs.csv", "export table.csv"],
)
def test_light_commands_load_nothing_heavy(folder, command):
    if command == "tell 3 --failed no":
        command = "tell 2 --failed no"
    code = CODE % (HEAVY,)
    done = subprocess.run([sys.executable, "-c", code, *command.split()], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"


@pytest.mark.parametrize("command", ["tell 9 y=0.5", "status", "correct 2 y=0.5", "void 2", "restore 2", "export table.csv"])
def test_suspects_and_corrections_load_nothing_heavy(tmp_path_factory, command):
    folder = tmp_path_factory.mktemp("suspects")
    (folder / "study.toml").write_text(STUDY)
    study = Study.create("s", DOMAIN, "y", surrogate=SURROGATE, storage=f"sqlite:///{folder / 'study.db'}")
    study.add([{**point, "y": 10 + point["a"]} for point in DOMAIN.design(8, "sobol", 0)])
    study.correct(4, y=1000 * study.record().observations[3].outputs["y"])
    if command == "restore 2":
        study.void(2)
    study.ask(owner="person")
    done = subprocess.run([sys.executable, "-c", CODE % (HEAVY,), *command.split()], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY []"
    if command == "status":
        assert "hyperleaf void 4" in done.stdout


def test_a_study_that_is_only_told_makes_no_surrogate(tmp_path):
    study = Study.create("s", DOMAIN, "y", storage=f"sqlite:///{tmp_path / 'a.db'}")
    again = Study.load("s", f"sqlite:///{tmp_path / 'a.db'}")
    again.add([{"a": 0.5, "k": 2, "y": 1.0}])
    again.status(), again.snapshot(), again.save()
    assert "learner" not in again._insight.__dict__ and "learner" not in study._insight.__dict__


def test_the_table_as_text_is_what_pandas_writes():
    rng = random.Random(2)
    domain = Domain(a=Real(0, 1), k=Integer(1, 9), m=Choice("x", 'a "b", c', "é"), c=Choice(1, 2.5), w=Choice(4, 8))
    study = Study.create("s", domain, {"y": {}, "z": {}}, surrogate=SURROGATE)
    assert tables.csv_of(study.record(), domain.names, study.outputs) == study.table().to_csv(index=False)
    study.add([{**point, "y": rng.gauss(0, 1) * 10.0 ** rng.randint(-9, 9), "z": 3.0} for point in domain.design(20, "uniform")])
    queries = study.ask(3)
    study.tell_failed(queries[0], "no\nconvergence, twice", seconds=0.25)
    assert tables.csv_of(study.record(), domain.names, study.outputs) == study.table().to_csv(index=False)


ROUND = [0.0, 1.0, 86400.0, 1e9]


@pytest.mark.parametrize("least", [[], [1.5], [1.7e9 + 0.001], [1.000001], [1.123456789], [None]], ids=str)
def test_times_are_written_as_pandas_writes_them(least):
    rng = random.Random(1)
    moments = ROUND + least + ([rng.uniform(1e9, 2e9) for _ in range(300)] if least == [1.123456789] else [])
    stamps = [pd.NaT if at is None else pd.Timestamp(at, unit="s", tz="UTC") for at in moments]
    written = pd.DataFrame({"at": stamps, "n": 0}).to_csv(index=False).splitlines()[1:]
    assert [f"{at or ''},0" for at in tables._times(moments)] == written
