"""What executors have in common: the error of a lost run, calls whose commands can be ended, and checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.processes import within

MOST = 1024


class WorkerError(HyperleafError, RuntimeError):
    """A run was lost with its worker: the process died, or was ended because the executor closed."""


def call_within(scope: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with within(scope):
        return function(*args, **kwargs)


def check_number(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MOST:
        raise InputError(f"the number of workers must be a whole number from 1 to {MOST}; got {number!r}.")
    return number


def check_open(closed: bool) -> None:
    if closed:
        raise RuntimeError("cannot schedule new futures after shutdown")  # the words of concurrent.futures
