"""The page about the house is true: it names the rooms that there are, in their order, and files that exist."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOUSE = ROOT / "src" / "hyperleaf"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROOMS = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)


def test_the_page_lists_every_room_once():
    there = {path.stem for path in HOUSE.iterdir() if (path.suffix == ".py" or (path / "__init__.py").is_file())}
    assert sorted(ROOMS) == sorted(there - {"__init__"})


def test_rooms_stand_in_the_order_that_the_import_linter_holds():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    level = {name: i for i, layer in enumerate(layers) for name in re.findall(r"\w+", layer)}
    assert [level[room] for room in ROOMS] == sorted(level[room] for room in ROOMS)


def test_files_and_folders_that_the_page_names_exist():
    named = set(re.findall(r"`((?:[\w.]+/)+[\w.]*|\w+\.py)`", PAGE))
    missing = [
        name for name in named if not any((base / name).exists() for base in (HOUSE, ROOT, HOUSE.parent, HOUSE / "report"))
    ]
    assert not missing
    assert len(named) > 15


def test_no_room_goes_past_the_front_door():
    """Rooms are imported by name, where the import linter sees it; only the front door and the table of kinds look them up."""
    hidden = [
        str(path.relative_to(HOUSE))
        for path in HOUSE.rglob("*.py")
        if re.search(r"import_module\(f?\"hyperleaf", path.read_text(encoding="utf-8"))
    ]
    assert set(hidden) == {"__init__.py"}


def test_files_stay_short_enough_to_be_read():
    longest = {str(path.relative_to(HOUSE)): len(path.read_text(encoding="utf-8").splitlines()) for path in HOUSE.rglob("*.py")}
    assert [name for name, lines in longest.items() if lines > 350] == []


def test_nobody_asks_what_class_a_posterior_or_a_method_of_inference_is():
    asks = re.compile(r"hasattr\((posterior|surrogate|inference)|inference\.tag\b|isinstance\([^)]*\b(SMC|NUTS|HMC|Map)\b")
    assert [str(path) for path in HOUSE.rglob("*.py") if asks.search(path.read_text(encoding="utf-8"))] == []
