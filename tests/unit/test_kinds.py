"""The one table of surrogates: what it says of each is so, and everybody who names surrogates has all of them."""

import inspect
import json
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import hyperleaf as hl
from hyperleaf.estimators import regressors
from hyperleaf.estimators.base import SurrogateRegressor
from hyperleaf.inference.smc import EFFORTS
from hyperleaf.surrogates import kinds, named
from hyperleaf.surrogates.base import Surrogate
from hyperleaf.surrogates.kinds import KINDS
from hyperleaf.surrogates.named import make_surrogate

ROOT = Path(__file__).resolve().parents[2]


def options_of(kind):
    """Names and defaults of the options that the function of this kind takes, or the class that it makes."""
    parameters = dict(list(inspect.signature(kind.builder()).parameters.items())[2:])
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values()):
        return {one.name: None if one.default is MISSING else one.default for one in fields(make_surrogate(kind.name, 2))}
    return {name: one.default for name, one in parameters.items()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_options_and_defaults_are_those_of_the_code(kind):
    assert {name: one.default for name, one in kind.options.items()} == options_of(kind)
    assert list(kind.options) == list(options_of(kind))
    for name, one in kind.options.items():
        assert one.default is None or not one.choices or one.default in one.choices, name
    assert isinstance(make_surrogate(kind.name, 2), Surrogate)


def test_words_that_options_may_be_are_those_of_the_code():
    assert set(kinds.EFFORTS) == set(EFFORTS) and kinds.EFFORT in EFFORTS
    assert set(named.KERNELS) == {"rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic"}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_has_a_regressor_with_its_options_and_defaults(kind):
    regressor = getattr(hl, kind.regressor)()
    assert isinstance(regressor, SurrogateRegressor) and regressor.kind == kind.name
    own = {"noise", "domain", "output_range", "random_state"}
    for name, value in regressor.get_params(deep=False).items():
        assert name in own or value == kind.options[name].default, name
    assert ("noise" in regressor.get_params(deep=False)) == kind.tellable


def test_every_regressor_is_of_a_kind_in_the_table():
    found = {cls.__name__ for cls in vars(regressors).values() if inspect.isclass(cls) and issubclass(cls, SurrogateRegressor)}
    assert found - {"SurrogateRegressor"} == {kind.regressor for kind in KINDS.values()}


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_docs_and_the_template_name_every_kind_with_its_options(kind):
    page = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith(f'| `"{kind.name}"` |')]
    for name, one in kind.options.items():
        if not one.special:
            assert f"`{name}" in row, name
            written = f"`{name} = {json.dumps(one.default)}`"
            assert one.default is None or written in row or f"`{name}` (" in row, f"{written} is not on the page"
    assert row.endswith(f"| {kind.updates} |")
    assert f'"{kind.name}"' in (ROOT / "src" / "hyperleaf" / "cli" / "study.toml").read_text(encoding="utf-8")
    assert f'"{kind.name}"' in hl.Study.create.__doc__


def test_the_table_is_free_of_jax():
    code = "import sys, hyperleaf.surrogates.kinds; print([name for name in ('jax', 'numpy', 'pandas') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
