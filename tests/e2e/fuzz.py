"""Broken files and command lines by the thousand: `fuzz.py WHAT NUMBER SEED` reads them in one process of 2 GiB.

It prints as JSON what came of it. Anything but success and an error of hyperleaf's own is a finding, and so is what takes longer
than 5 s of the processor or, since the machine may be busy, twelve times that on the clock.
"""

import contextlib
import io
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

MEMORY, LONGEST = 2 * 2**30, 5.0
GOLDEN = Path(__file__).parents[1] / "golden" / "models-v2"
TOML = """[study]
name = "booster"
storage = "sqlite:///booster.db"
seed = 1
constraints = ["mach * alpha <= 60"]
[inputs]
mach = { low = 0.2, high = 6.0 }
alpha = { low = -5.0, high = 30.0, unit = "deg" }
blades = { low = 3, high = 7, integer = true }
fuel = { options = ["E5", "E10"] }
[outputs]
lift = { noise = "robust", range = [0.0, 2.0], weight = 0.5, unit = "N" }
drag = { noise = 0.01 }
[surrogate]
kind = "hhk"
leaves = 8
inference = { kind = "smc", particles = 512 }
[acquisition]
kind = "entropy"
[design]
kind = "sobol"
size = 5
[simulator]
command = "./solver {input} {output}"
timeout = "2h"
output = { lift = 'CL = (\\S+)' }
[stop]
queries = 60
time = "8h"
rmse = 0.02
[failures]
retries = 0
"""
CSV = "a;k [1/min];y (N);fuel\n0,5;3;1,25;E5\n0,75;4;-2,5e-3;E10\n1;9;7;E5\n"
SHEET = "id,a,k,fuel,y\n1,0.5,3,E5,1.25\n2,0.25,4,E10,\n3,0.75,5,E5,2.5\n"
_WORDS = (
    "nan inf -inf 1e999 -0 0x10 1_000 9999999999999999999999 '' \" \\ ; , \t { } [ ] = # %s {0} {a.b} ../.. /dev/zero None true "
    "\x00 \ufeff é 漢 \u202e 1.000,5 1'000 - -- =cmd |ls $(ls) __import__ ((((((((((( a**a**a 10**10**10 a/0 é̂̂̂̂"
)
_OPTIONS = (
    "--json --help -n 1 0 -1 3 --again --repeat --release --lease 8h 1w x --sheet out.csv out.xlsx --csv rows.csv sheet.csv "
    "study.toml --study -s --failed why y=1 y=2 y=nan y= =1 a=0.5 a=9 k=3 --achieved --why --who me -o out.html model.npz "
    "points.csv --output y --noisy --jobs threads:1 -j dask: 99 1e9 --queries --force --effort fast --verbose -vv --version "
    "- -- ''"
)
WORDS, OPTIONS = _WORDS.split(" "), _OPTIONS.split(" ")
COMMANDS = ("new", "status", "ask", "tell", "correct", "void", "restore", "export", "predict", "report", "run", "doctor")


def mangled(content: bytes, chance: random.Random, words: list[bytes]) -> bytes:
    """With a few things gone wrong."""
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        i = chance.randrange(len(content) + 1)
        j = min(len(content), i + chance.choice((1, 1, 2, 8, 64, 4096)))
        how = chance.randrange(7)
        if how == 0:
            content = content[:i] + bytes([chance.randrange(256)]) + content[i + 1 :]
        elif how == 1:
            content = content[:i] + content[j:]
        elif how == 2:
            content = content[:i] + chance.choice(words) + content[i:]
        elif how == 3:
            content = content[:i] + chance.choice(words) + content[j:]
        elif how == 4:
            content = content[:j] + content[i:j] * chance.choice((1, 2, 50)) + content[j:]
        elif how == 5:
            content = content[:i]
        else:
            k = chance.randrange(len(content) + 1)
            content = content[:k] + content[i:j] + content[k:]
    return content


def repacked(content: bytes, chance: random.Random, words: list[bytes]) -> bytes:
    """A zip with one of its entries mangled: its checksums are right, so what reads it has to notice by itself."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    k = chance.randrange(len(entries)) if chance.random() < 0.5 else 0
    entries[k] = (entries[k][0], mangled(entries[k][1], chance, words))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, part in entries:
            archive.writestr(name, part)
    return target.getvalue()


def toml() -> Callable[[random.Random], None]:
    from hyperleaf.config import parse_toml

    words = [word.encode() for word in WORDS] + [line.encode() for line in TOML.splitlines(keepends=True)]

    def one(chance: random.Random) -> None:
        text = mangled(TOML.encode(), chance, words).decode(errors="surrogateescape" if chance.random() < 0.2 else "replace")
        parse_toml(text).make_domain()

    return one


def tables(name: str, start: bytes) -> Callable[[random.Random], None]:
    from hyperleaf.cli import answering, sheets
    from hyperleaf.domain import Choice, Domain, Integer, Real
    from hyperleaf.simulators.table import read_csv_lines
    from hyperleaf.study import Study

    domain = Domain({"a": Real(0, 1), "k": Integer(1, 9, unit="1/min"), "fuel": Choice("E5", "E10")}, constraints=["a * k <= 8"])
    study = Study.create("s", domain, "y", design=9)
    study.ask(5, owner="person")
    words = [word.encode() for word in WORDS]

    def one(chance: random.Random) -> None:
        change = repacked if start[:2] == b"PK" and chance.random() < 0.7 else mangled
        Path(name).write_bytes(change(start, chance, words))
        if name.startswith("sheet"):
            header, rows = sheets.read_sheet(Path(name), study)
            answering._answers(study, Path(name), header, rows, chance.random() < 0.5)
        else:
            points, _, _ = read_csv_lines(name, domain, ("y",))
            domain.to_unit(points) if points else None

    return one


def workbook(text: str) -> bytes:
    from hyperleaf.simulators.workbooks import write_workbook

    write_workbook(Path("start.xlsx"), [[cell or None for cell in line.split(",")] for line in text.splitlines()])
    return Path("start.xlsx").read_bytes()


def npz() -> Callable[[random.Random], None]:
    from hyperleaf.estimators.files import load_regressor
    from hyperleaf.study.files import load_model

    names = ("study-model.npz", "regressor-hhk.npz", "regressor-treed.npz", "regressor-deep.npz", "regressor-warped.npz")
    starts = [(GOLDEN / name).read_bytes() for name in names]
    words = [word.encode() for word in WORDS] + [b'{"tag": "gp"}', b'{"array": "a1"}', b'"fields"', b'"dict"', b"(99999999999,)"]

    def one(chance: random.Random) -> None:
        k = chance.randrange(len(starts))
        Path("f.npz").write_bytes((repacked if chance.random() < 0.8 else mangled)(starts[k], chance, words))
        (load_model if k == 0 else load_regressor)("f.npz")

    return one


def commands() -> Callable[[random.Random], None]:
    import click
    from typer.main import get_command

    import hyperleaf.report.page
    import hyperleaf.study.learning  # noqa: F401, slow to load, which is not what is tried here
    from hyperleaf.cli import app

    small = 'kind = "treed"\nburn_in = 4\ntotal = 12\nwarm_burn_in = 4\n[acquisition]\nkind = "variance"\n'
    study = (
        '[study]\nname = "s"\n[inputs]\na = { low = 0, high = 1 }\nk = { low = 1, high = 9, integer = true }\n[outputs]\ny = {}\n'
    )
    Path("study.toml").write_text(f"{study}[surrogate]\n{small}")
    Path("rows.csv").write_text("a,k,y\n0.5,3,1.0\n0.25,4,2.0\n")
    Path("points.csv").write_text("a,k\n0.5,3\n")
    Path("sheet.csv").write_text("id,a,k,y\n1,,,5\n")
    Path("model.npz").write_bytes((GOLDEN / "study-model.npz").read_bytes())
    command = get_command(app)

    def one(chance: random.Random) -> None:
        args = [chance.choice(COMMANDS)] + [
            chance.choice(OPTIONS if chance.random() < 0.85 else WORDS) for _ in range(chance.randrange(6))
        ]
        args = [arg.replace("\x00", "0") for arg in args]  # no command line can hold it
        if chance.random() < 0.02:
            for file in Path(".").glob("study.db*"):
                file.unlink()
        # typed files are not to pile up, nor to be written over
        try:
            command.main(args, prog_name="hyperleaf", standalone_mode=True)
        except SystemExit as end:
            if end.code not in (0, 1, 2, 3, None):
                raise AssertionError(f"exit code {end.code} of {args}") from end
        except (click.ClickException, click.exceptions.Exit):
            pass
        except Exception as error:
            raise AssertionError(f"hyperleaf {' '.join(args)}") from error
        finally:
            Path("study.toml").write_text(f"{study}[surrogate]\n{small}")

    return one


KINDS: dict[str, Callable[[], Callable[[random.Random], None]]] = {
    "toml": toml,
    "csv": lambda: tables("f.csv", CSV.encode()),
    "sheet": lambda: tables("sheet-f.csv", SHEET.encode()),
    "xlsx": lambda: tables("sheet-f.xlsx", workbook(SHEET)),
    "npz": npz,
    "commands": commands,
}


class Hang(BaseException):
    """Not to be caught by what is tried."""


def fuzz(what: str, number: int, seed: int) -> dict:
    from hyperleaf.errors import HyperleafError

    def late(*_: object) -> None:
        raise Hang

    signal.signal(signal.SIGALRM, late)
    signal.signal(signal.SIGPROF, late)
    one, outcomes, findings, slowest = KINDS[what](), Counter(), {}, 0.0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for k in range(number):
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        signal.setitimer(signal.ITIMER_REAL, 12 * LONGEST)
        quiet = io.StringIO()
        try:
            with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
                one(random.Random(seed * 10**9 + k))
            outcomes["read"] += 1
        except (HyperleafError, OSError) as error:
            outcomes["refused"] += 1
            if not isinstance(error, HyperleafError):
                findings.setdefault(f"OSError {error.errno}", (k, traceback.format_exc()))
        except BaseException as error:
            outcomes["found"] += 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            cause = error.__cause__ or error
            findings.setdefault(
                f"{type(cause).__name__} in {Path(where.filename).name}:{where.lineno}", (k, traceback.format_exc())
            )
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.setitimer(signal.ITIMER_REAL, 0.0)
        slowest = max(slowest, time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return {"outcomes": outcomes, "slowest": round(slowest, 3), "peak_mb": round(peak), "findings": findings}


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each thread of BLAS takes address space of its own
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(json.dumps(fuzz(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
        os.chdir("/")
