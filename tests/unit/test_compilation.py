"""The compilation cache: private, on request only, and refused where others could write."""

import os
import stat
import subprocess
import sys

import pytest

from hyperleaf.compilation import VARIABLE, default_cache_folder, enable_compilation_cache
from hyperleaf.errors import InputError

CODE = """
import pathlib, sys
import jax
import hyperleaf as hl
assert hl.hhk_prior(1, 2) is not None
assert not jax.config.values["jax_compilation_cache_dir"], "the library turned it on by itself"
folder = hl.enable_compilation_cache(sys.argv[1])
jax.jit(lambda x: jax.numpy.linalg.inv(x @ x.T))(jax.numpy.eye(7)).block_until_ready()
jax.random.gamma(jax.random.key(0), jax.numpy.ones(5)).block_until_ready()
assert list(pathlib.Path(folder).iterdir()), "nothing was kept"
"""


def test_it_is_off_until_asked_for_and_then_keeps_compiled_code(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "cache")], check=True, env=environment)
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_the_folder_comes_from_the_variable_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "mine"))
    assert default_cache_folder() == tmp_path / "mine"
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_folder() == tmp_path / "hyperleaf" / "compiled"


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(InputError, match="writable by you alone"):
        enable_compilation_cache(folder)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        enable_compilation_cache(tmp_path / "file" / "cache")
