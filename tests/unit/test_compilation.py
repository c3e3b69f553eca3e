"""The compilation cache: private, by default, off by a setting, and refused where others could write."""

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
folder = jax.config.values["jax_compilation_cache_dir"]
if not folder:
    assert hl.enable_compilation_cache() is None
    sys.exit(7)
jax.jit(lambda x: jax.numpy.linalg.inv(x @ x.T))(jax.numpy.eye(7)).block_until_ready()
jax.random.gamma(jax.random.key(0), jax.numpy.ones(5)).block_until_ready()
assert list(pathlib.Path(folder).iterdir()), "nothing was kept"
"""


def run(tmp_path, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return subprocess.run([sys.executable, "-c", CODE], env=environment | {"HOME": str(tmp_path), **variables}).returncode


def test_the_library_keeps_compiled_code_in_a_private_folder(tmp_path):
    assert run(tmp_path, HYPERLEAF_CACHE=str(tmp_path / "cache")) == 0
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_it_is_off_where_that_is_said_or_nothing_can_be_kept(tmp_path):
    assert run(tmp_path, HYPERLEAF_CACHE="off") == 7
    (tmp_path / "file").write_text("")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    code = "import hyperleaf as hl; hl.hhk_prior(1, 2)"
    subprocess.run([sys.executable, "-c", code], env=environment | {"HYPERLEAF_CACHE": str(tmp_path / "file" / "x")}, check=True)


def test_a_folder_that_jax_was_given_is_kept(tmp_path):
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"), JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0") == 0
    assert list((tmp_path / "own").iterdir()) and not (tmp_path / ".cache").exists()


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
