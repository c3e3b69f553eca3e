"""A Python function as a simulator, given itself or as "module:name"."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperleaf.checks import alike
from hyperleaf.errors import InputError
from hyperleaf.simulators.base import (
    BadOutput,
    Failure,
    Outcome,
    Success,
    check_outputs,
    collect,
    input_names,
)

_PLACE = re.compile(r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*(\.[^\W\d]\w*)*)")
_import_lock = threading.RLock()


class FunctionSimulator:
    """Calls a function with the inputs as keyword arguments.

    It returns a number if there is one output, a dict of outputs, or a tuple, list or array in the order of `outputs`. An
    exception, a missing output, NaN and infinity are failures of the run; Ctrl-C passes through. "module:name" is looked for
    in `folder` first, which is on the path for the import only. Where the `inputs` are known (a Domain or names), a function
    that cannot take them is refused at once.
    """

    outputs: tuple[str, ...]

    def __init__(
        self,
        function: str | Callable[..., Any],
        outputs: Iterable[str] | str,
        *,
        folder: str | Path | None = None,
        inputs: Any = None,
    ) -> None:
        self.outputs = check_outputs(outputs)
        self._folder = str(Path(folder or ".").absolute())
        self._place = function if isinstance(function, str) else None
        self._function: Callable[..., Any] | None = load_function(function, self._folder)
        names = input_names(inputs)
        if names is not None:
            _check_signature(self._function, names)

    def __repr__(self) -> str:
        return f"FunctionSimulator({self._place or self._function!r}, outputs={list(self.outputs)})"

    def __getstate__(self) -> dict[str, Any]:
        # a function given by name travels as that name, for its module may not be importable where it is unpickled
        return self.__dict__ | ({"_function": None} if self._place else {})

    def __call__(self, point: Mapping[str, Any], *, query_id: int, attempt: int = 1) -> Outcome:
        if self._function is None:
            self._function = load_function(self._place, self._folder)
        start = time.monotonic()
        try:
            outputs = collect(_named(self._function(**point), self.outputs), self.outputs)
        except BadOutput as error:
            return Failure(f"{error}.", time.monotonic() - start)
        except (Exception, SystemExit) as error:  # whatever the function does wrong is a failed run
            return Failure(_reason(error), time.monotonic() - start, log=_tail(traceback.format_exc()))
        return Success(outputs, time.monotonic() - start)


def load_function(function: Any, folder: str | Path) -> Callable[..., Any]:
    """The callable itself, or the one that "module:name" stands for; an InputError says why there is none."""
    if not isinstance(function, str):
        if not callable(function):
            raise InputError(f'a function must be callable or "module:name"; got {function!r:.80}.')
        return function
    place = _PLACE.fullmatch(function.strip())
    if place is None:
        raise InputError(f'a function must be written "module:name"; got {function!r}. Write it like "model:simulate".')
    found: Any = _import(place["module"], str(folder))
    for part in place["name"].split("."):
        if not hasattr(found, part):
            close = alike(part, [name for name in dir(found) if not name.startswith("_")])
            raise InputError(f"{function!r} must exist; {place['module']!r} has no {part!r}.{close} Correct the name.")
        found = getattr(found, part)
    if not callable(found):
        raise InputError(f"{function!r} must be callable; it is {type(found).__name__}. Name a function.")
    return found


def _import(name: str, folder: str) -> Any:
    top = name.partition(".")[0]
    with _import_lock:
        own = [path for path in (Path(folder, f"{top}.py"), Path(folder, top, "__init__.py")) if path.is_file()]
        loaded = getattr(sys.modules.get(top), "__file__", None)
        if own and loaded and not any(path.exists() and path.samefile(loaded) for path in own if Path(loaded).exists()):
            # another study's module of the same name; what was taken from it stays alive
            for other in [key for key in sys.modules if key.partition(".")[0] == top]:
                del sys.modules[other]
        importlib.invalidate_caches()
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and (name == error.name or name.startswith(error.name + ".")):
                raise InputError(
                    f"the module {name!r} must be installed or lie in {folder}; there is none. Correct the name, or the folder."
                ) from None
            raise InputError(f"the module {name!r} must be importable; it needs {error.name!r}, which is missing.") from error
        except (Exception, SystemExit) as error:  # the user's module may do anything when it is imported
            raise InputError(f"the module {name!r} must be importable; {_reason(error)} Run it by itself to see.") from error
        finally:
            if folder in sys.path:  # unless the module took it away itself
                sys.path.remove(folder)


def _check_signature(function: Callable[..., Any], names: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have none
        return
    try:
        signature.bind(**dict.fromkeys(names))
    except TypeError as error:
        raise InputError(
            f"the function must take the inputs {list(names)} as keyword arguments; its signature is {signature} ({error}). "
            "Rename its parameters, or take **inputs."
        ) from None


def _named(value: Any, outputs: tuple[str, ...]) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple | list) or getattr(value, "ndim", 0) == 1:
        if len(value) != len(outputs):
            raise BadOutput(f"the function must return {len(outputs)} values, {list(outputs)}; got {len(value)}")
        return dict(zip(outputs, value, strict=True))
    if len(outputs) > 1:
        raise BadOutput(f"the function must return a dict or a tuple of {list(outputs)}; got {type(value).__name__}")
    return {outputs[0]: value}


def _reason(error: BaseException) -> str:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    where = f" (line {frames[-1].lineno} of {Path(frames[-1].filename).name}: {frames[-1].line})" if frames else ""
    try:
        message = str(error)
    except Exception:  # a message that cannot be printed must not hide the error
        message = "no message"
    return f"{type(error).__name__}: {message[:500]}{where}."


def _tail(text: str, size: int = 4000) -> str:
    return text if len(text) <= size else "…" + text[-size:]
