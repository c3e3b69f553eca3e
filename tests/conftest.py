"""What all tests share: compiled code kept between runs, shapes checked at run time, reproducible hypothesis, reference data."""

import os
import signal
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest
from hypothesis import settings

# Started in the background (`nohup make test &`) a shell leaves SIGINT ignored, and so would all children of the tests.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]

# Read by JAX when it is first imported. Workers and later runs share what was compiled; 0.3 s keeps trifles out of the cache.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")

# Shapes in signatures are checked by beartype, in tests only, in the rooms that compute with JAX. Not at the border (data,
# domain, estimators …): there a wrong value must meet hyperleaf's own error, not beartype's. HYPERLEAF_TYPECHECK=0 turns it off.
CHECKED_ROOMS = ["hyperleaf.linalg", "hyperleaf.kernels", "hyperleaf.priors", "hyperleaf.inference"]
if os.environ.get("HYPERLEAF_TYPECHECK", "1") != "0":
    import jaxtyping

    jaxtyping.install_import_hook(CHECKED_ROOMS, "beartype.beartype")

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=30, print_blob=True)
settings.register_profile("search", deadline=None, max_examples=500)  # HYPOTHESIS_PROFILE=search looks for new counterexamples
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def needs():
    """Skips where an optional package or program is missing, and says so; fails if HYPERLEAF_EXPECT (a,b,…) names it."""

    def check(name: str) -> None:
        if find_spec(name) is None and which(name) is None:
            words = f"{name} is not installed; pip install 'hyperleaf[tasks,rivals,gpytorch,tinygp,gpjax,gest]' has all but R"
            if name in os.environ.get("HYPERLEAF_EXPECT", "").split(","):
                pytest.fail(f"{words}, and HYPERLEAF_EXPECT says that it should be here.")
            pytest.skip(words)

    return check


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data, which is not part of the repository."""
    folder = Path(os.environ.get("HYPERLEAF_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference data not found in {folder}; set HYPERLEAF_SHARED to the folder that holds data/")
    return folder


MOST_MAPS = 25_000  # Linux gives a process 65 530 memory maps as a rule; compiled functions take several each


@pytest.fixture(autouse=True, scope="module")
def bounded_compiled_code():
    """Compiled code of earlier files goes when there is much of it: a process that runs out of memory maps is aborted."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and len(maps.read_text().splitlines()) > MOST_MAPS:
        import jax

        jax.clear_caches()
