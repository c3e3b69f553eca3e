"""Wheel and source archive hold what they must and nothing else, and the wheel works without the repository."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.long


def run(*command: str, cwd: Path | None = None) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def fresh(tmp_path_factory) -> Path:
    """An environment of its own with nothing in it but what builds."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", str(folder))
    run(str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "build")
    return folder


@pytest.fixture(scope="module")
def built(fresh, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(str(fresh / "bin" / "python"), "-m", "build", "--outdir", str(folder), str(ROOT))
    return folder


def tracked(folder: str) -> set[str]:
    return set(run("git", "ls-files", folder, cwd=ROOT).splitlines())


def test_the_wheel_holds_all_of_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in tracked("src/hyperleaf")}
    about = {name.rpartition("/")[2] for name in zipfile.ZipFile(wheel).namelist() if "/licenses/" in name}
    assert about == {"LICENSE", "NOTICES.md"}
    assert wheel.stat().st_size < 3 * 2**20


def test_the_source_archive_has_tests_and_docs_and_no_results(built):
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert (
        tracked("src") | {"README.md", "CHANGELOG.md", "LICENSE", "NOTICES.md", "CITATION.cff", "Makefile", "mkdocs.yml"} <= names
    )
    assert {
        name for name in tracked("tests") | tracked("docs") | tracked("examples") if not name.startswith("docs/results")
    } <= names
    assert not [name for name in names if re.match(r"docs/results[^/]*/", name)]
    assert archive.stat().st_size < 10 * 2**20


def test_the_readme_and_the_demo_work_without_the_repository(built, fresh, tmp_path):
    (wheel,) = built.glob("*.whl")
    python = str(fresh / "bin" / "python")
    run(python, "-m", "pip", "install", "--quiet", str(wheel), "-c", str(ROOT / "constraints.txt"))
    (lines,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert "give or take" in run(python, "-c", lines, cwd=tmp_path)
    run(str(fresh / "bin" / "hyperleaf"), "demo", "--queries", "12", "--out", "demo", cwd=tmp_path)
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"leaves.html", "stationary.html", "overview.png"}
    run(str(fresh / "bin" / "hyperleaf"), "new", cwd=tmp_path)
    assert "is in order" in run(str(fresh / "bin" / "hyperleaf"), "check", cwd=tmp_path)
