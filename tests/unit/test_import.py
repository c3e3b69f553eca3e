"""The front door: `import hyperleaf` is light, and every public name is behind it."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hyperleaf

PACKAGE = Path(hyperleaf.__file__).parent
HEAVY = {"jax", "equinox", "numpyro", "blackjax", "numpy", "scipy", "sklearn", "pandas", "xarray", "matplotlib", "plotly"}


def modules_after(statement: str) -> set[str]:
    """Top-level names in sys.modules of a fresh interpreter after `statement`."""
    code = f"{statement}\nimport sys\nsys.stdout.write(' '.join({{m.partition('.')[0] for m in sys.modules}}))"
    env = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    loaded = modules_after("import hyperleaf; dir(hyperleaf); hyperleaf.HyperleafError")
    assert "hyperleaf" in loaded
    assert loaded & HEAVY == set()


def test_a_name_is_loaded_when_it_is_used() -> None:
    assert "numpy" in modules_after("import hyperleaf; hyperleaf.Dataset")


@pytest.mark.parametrize("name", hyperleaf.__all__)
def test_public_name_resolves_to_the_object_of_that_name(name: str) -> None:
    assert getattr(hyperleaf, name).__name__.rpartition(".")[2] == name  # a module knows its full name
    assert name in dir(hyperleaf)


def test_the_stub_lists_each_name_once_and_exports_it_to_type_checkers() -> None:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    aliases = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    homes = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert homes == hyperleaf._HOME
    assert [alias.asname for alias in aliases] == [alias.name for alias in aliases]  # "as" the same name is what exports it
    assert len({alias.name for alias in aliases}) == len(aliases) == len(hyperleaf.__all__) > 50


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hyperleaf.nonsense  # noqa: B018


def test_version_is_the_one_in_pyproject() -> None:
    pyproject = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert hyperleaf.__version__ == pyproject["project"]["version"]
