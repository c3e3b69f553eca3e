"""An adapter whose framework is missing says what to install, and none of them is loaded by another or by the library."""

import subprocess
import sys
from importlib import import_module

import pytest

from hyperleaf.errors import InputError

ADAPTERS = {"tinygp": "tinygp", "gpjax": "gpjax", "gpytorch": "gpytorch", "gest": "gest_api"}


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_missing_framework_is_named_with_the_way_to_get_it(name, monkeypatch):
    parts = [one for one in sys.modules if one.startswith(f"{ADAPTERS[name]}.")]
    for one in (ADAPTERS[name], *parts):
        monkeypatch.setitem(sys.modules, one, None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, f"hyperleaf.adapters.{name}", raising=False)
    with pytest.raises(
        InputError, match=rf"needs {ADAPTERS[name]}, which is not installed. Run: pip install 'hyperleaf\[{name}\]'"
    ):
        import_module(f"hyperleaf.adapters.{name}")


def test_no_framework_is_loaded_by_the_shared_parts():
    code = (
        "import hyperleaf.adapters.sklearn, sys; print([m for m in ('torch', 'gpjax', 'tinygp', 'gest_api') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
