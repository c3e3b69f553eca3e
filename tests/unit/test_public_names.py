"""What was public in a release stays: names in Python, commands and options, keys of study.toml. See docs/releasing.md.

`tests/golden/public-names.txt` has a heading for each release and below it what that release first had. What the next one adds is
written there when it is made: `python tests/unit/test_public_names.py`.
"""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "tests" / "golden" / "public-names.txt"


def promised() -> list[str]:
    return [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def public() -> set[str]:
    """Everything public that there is now."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from reference.api import PACKAGES, members
        from reference.commands import commands, parameters
    finally:
        sys.path.remove(str(ROOT / "docs"))
    import hyperleaf as hl
    from hyperleaf.config.keys import KEYS
    from hyperleaf.surrogates.kinds import KINDS

    found = {f"hl.{name}" for name in hl.__all__} | {f"study.toml {key}" for key in KEYS}
    found |= {f"hl.{package}.{name}" for package in PACKAGES for name in getattr(hl, package).__all__}
    found |= {f"study.toml surrogate.{kind.name}.{option}" for kind in KINDS.values() for option in kind.options}
    for name in hl.__all__:
        value = getattr(hl, name)
        if isinstance(value, type):
            found |= {f"hl.{name}.{member}" for member, _ in members(value)}
    for name, function, _ in commands():
        found.add(name)
        for _, _, info, _ in parameters(function):
            first = getattr(info, "default", None)
            names = [*([first] if isinstance(first, str) else []), *(info.param_decls or ())]
            found |= {f"{name} {option}" for option in names if option.startswith("-")}
    return found


@pytest.fixture(scope="module")
def now() -> set[str]:
    return public()


def test_nothing_that_was_public_has_vanished(now):
    gone = sorted(set(promised()) - now)
    assert not gone, f"{gone} were public; deprecate them first, as docs/releasing.md says"


def test_the_list_is_by_release_and_has_each_name_once():
    names = promised()
    assert len(names) == len(set(names)) > 300
    releases = re.findall(r"^# (\d+\.\d+\.\d+)$", LIST.read_text(encoding="utf-8"), re.MULTILINE)
    assert releases and releases == sorted(releases, key=lambda one: tuple(map(int, one.split("."))))


def test_the_list_has_what_people_write(now):
    assert {"hl.Study.ask", "hl.HHKRegressor.fit", "hyperleaf run --jobs", "study.toml stop.queries", "hl.kernels.RBF"} <= now


if __name__ == "__main__":
    from importlib.metadata import version

    before = LIST.read_text(encoding="utf-8") if LIST.exists() else "# What each release first had; see docs/releasing.md.\n"
    new = sorted(public() - {*(promised() if LIST.exists() else ())})
    LIST.write_text(f"{before}\n# {version('hyperleaf')}\n" + "\n".join(new) + "\n", encoding="utf-8")
