"""float64 where hyperleaf computes, whatever the user's JAX settings are.

JAX computes in float32 unless a process-wide switch is set. hyperleaf never touches that switch: each public entry into
compiled code is wrapped in `float64`, which turns double precision on for the calling thread and the length of the call.
What leaves such a call for the user is a NumPy array, so that no later operation falls back to float32 unseen.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax

from hyperleaf.compilation import keep_compiled

P = ParamSpec("P")
T = TypeVar("T")


def put(value: Any) -> Any:
    """A number or NumPy array on the device, as `jnp.asarray` does it, which would compile something for each shape. What is on
    the device already, or being traced, stays as it is. The array must not be changed afterwards: JAX may share its memory.
    """
    return value if isinstance(value, jax.Array) else jax.device_put(value)


def float64(function: Callable[P, T]) -> Callable[P, T]:
    """Run `function` with JAX in double precision, for this thread and this call only."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        keep_compiled()
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped
