"""Files that hang, never end, or say that they are larger than they are: a sentence, soon, within bounded memory."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hyperleaf.cli import app
from hyperleaf.errors import InputError
from hyperleaf.estimators.files import load_regressor
from hyperleaf.io import read_file, replacing
from hyperleaf.simulators import Failure, as_simulator
from hyperleaf.study.files import load_model
from hyperleaf.surrogates.files import load_posterior, save_posterior
from hyperleaf.surrogates.named import make_surrogate

GOLDEN = Path(__file__).parents[1] / "golden" / "models-v2"
STUDY = '[study]\nname = "s"\n[inputs]\nx = { low = 0.0, high = 1.0 }\n[outputs]\ny = {}\n'


def bad(*arguments: Any) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 1, (result.stdout, result.exception)
    return result.stderr


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


# --- reading


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/dev/full", "/dev/null"])
def test_what_is_no_file_is_not_waited_for(here: Path, name: str) -> None:
    assert "pipe or a device" in bad("status", name)
    assert "pipe or a device" in bad("tell", "--csv", name)
    with pytest.raises(OSError, match="pipe or a device"):
        read_file(name, 100)


def test_a_file_may_be_too_large(here: Path) -> None:
    (here / "f").write_bytes(b"0123456789")
    assert read_file("f", 10) == b"0123456789" and read_file("f", 4, tail=True) == b"6789"
    with pytest.raises(OSError, match="at most 9 bytes and has 10"):
        read_file("f", 9)


def test_results_that_are_a_pipe_are_a_failed_run(here: Path) -> None:
    spec = {"command": "mkfifo output.json", "timeout": "20s"}
    outcome = as_simulator(spec, ("y",), folder=here, study="s")({"x": 1.0}, query_id=1)
    assert isinstance(outcome, Failure) and "no file but a pipe" in outcome.reason


# --- writing


def test_a_device_is_never_replaced(here: Path) -> None:
    (here / "target").symlink_to("/dev/null")
    for path in ("pipe", "target"):
        with pytest.raises(OSError, match="name a file"), replacing(path) as unfinished:
            unfinished.write_text("x")
        assert "pipe or a device" in bad("predict", "s.npz", "p.csv", "-o", path) or path == "pipe"
    assert (here / "target").is_symlink() and Path("/dev/null").is_char_device()
    assert "pipe or a device" in bad("new", "pipe", "--force")
    assert "pipe or a device" in bad("report", "-o", "target")  # before it learns


def test_a_link_stays_one_and_what_it_leads_to_is_replaced(here: Path) -> None:
    (here / "real.txt").write_text("old")
    (here / "link.txt").symlink_to("real.txt")
    with replacing("link.txt") as unfinished:
        unfinished.write_text("new")
    assert (here / "link.txt").is_symlink() and (here / "real.txt").read_text() == "new"


# --- NPZ


def npy(array: np.ndarray, shape: str | None = None) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    content = buffer.getvalue()
    if shape is None:
        return content
    old = f"'shape': {array.shape}".encode()
    new = f"'shape': {shape}".encode()
    start = content.index(old)
    return content[:start] + new + content[start + len(old) :].replace(b" " * (len(new) - len(old)), b"", 1)


def archive(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return path


def header(value: Any) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return npy(np.frombuffer(text, dtype=np.uint8))


def posterior(node: Any) -> bytes:
    return header({"format": "hyperleaf posterior", "version": 2, "hyperleaf": "0.1.0", "posterior": node})


def deep(opening: bytes, closing: bytes) -> bytes:
    start = b'{"format": "hyperleaf posterior", "version": 2, "posterior": '
    return header(start + opening * 100_000 + b"1" + closing * 100_000 + b"}")


HOSTILE = {
    "an array that says it is huge": {"header": posterior({"array": "a0"}), "a0": npy(np.zeros(3), "(10000000000,)")},
    "a negative shape": {"header": posterior({"array": "a0"}), "a0": npy(np.zeros(3), "(-1,)")},
    "nested lists": {"header": deep(b"[", b"]")},
    "nested entries": {"header": deep(b'{"tuple": [', b"]}")},
    "a class that is none of ours": {"header": posterior({"tag": "os.system", "fields": {}})},
    "a module": {"header": posterior({"class": "subprocess.Popen", "fields": {"args": {"tuple": ["ls"]}}})},
    "an array that is missing": {"header": posterior({"array": "a7"})},
    "fields of a wrong kind": {"header": posterior({"tag": "Learned", "fields": 7})},
    "an unhashable key": {"header": posterior({"dict": [[{"list": []}, 1]]})},
    "a float that is none": {"header": posterior({"float": "x"})},
    "no text": {"header": header(b"\xff\xfe")},
    "no object": {"header": header([1, 2])},
    "objects": {"header": b"\x93NUMPY\x01\x00\x16\x00{'descr': '|O', 'x': 1}"},
    "no array at all": {"header": b"nothing"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_surrogate_is_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError):
        load_posterior(archive(tmp_path / "s.npz", **HOSTILE[name]))


BOMB = """
import resource, sys, zipfile
from hyperleaf.errors import InputError
from hyperleaf.study.files import load_model
from hyperleaf.surrogates.files import load_posterior, save_posterior
with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
    with file.open("header.npy", "w", force_zip64=True) as part:
        for _ in range(3 * 64):
            part.write(bytes(2**24))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    load_posterior("bomb.npz")
except InputError as error:
    sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before} {error}")
"""


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BOMB], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    grown, _, words = done.stdout.partition(" ")
    assert "at most" in words and int(grown) < 100_000, done.stderr


# --- more than memory holds


def test_leaves_have_an_upper_bound() -> None:
    for options in ({"leaves": 10**9}, {"choose_leaves": [1, 10**9]}):
        with pytest.raises(InputError, match="at most 64; got 1000000000"):
            make_surrogate("hhk", 2, **options)


@pytest.mark.parametrize("name", ["standardizer", "params", "posterior", "y"])
def test_a_regressor_without_one_of_its_parts_is_a_sentence(tmp_path: Path, name: str) -> None:
    content = load_posterior(GOLDEN / "regressor-hhk.npz")
    for wrong in ({key: value for key, value in content.items() if key != name}, {**content, name: {"nothing": 1}}):
        if name in ("y", "standardizer") and name in wrong:
            continue  # of another kind, which only shows when it is used
        with pytest.raises(InputError, match=r"incomplete or damaged|must"):
            load_regressor(save_posterior(tmp_path / "r.npz", wrong))


@pytest.mark.parametrize("name", ["learned", "domain", "unit"])
def test_a_surrogate_without_one_of_its_parts_is_a_sentence(tmp_path: Path, name: str) -> None:
    content = {key: value for key, value in load_posterior(GOLDEN / "study-model.npz").items() if key != name}
    with pytest.raises(InputError, match=f"incomplete or damaged: KeyError '{name}'"):
        load_model(save_posterior(tmp_path / "s.npz", content))
