"""Posteriors in files: one NPZ with plain arrays and a JSON header, no pickle, so that opening a file never runs foreign code.

`_Writer` turns a posterior into a tree that JSON can hold, putting arrays aside under short names; `_Reader` is its mirror.
Objects are written as the tag of their class and the values of their fields, and only classes that have a tag (`tags`) are built
again. Every number is kept to the last bit, so what is loaded predicts and moves on exactly as what was saved.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import NDArray
from numpyro.distributions import Distribution
from numpyro.distributions.constraints import Constraint
from numpyro.distributions.transforms import Transform

from hyperleaf.errors import InputError
from hyperleaf.io import is_archive, replacing
from hyperleaf.precision import float64, put
from hyperleaf.surrogates.archives import read_archive
from hyperleaf.surrogates.base import Diagnostics
from hyperleaf.surrogates.tags import PATHS_1, changed, class_of, tag_of

FORMAT = "hyperleaf posterior"
VERSION = 2  # 1 named classes by their modules
_HEADER = "header"
# What NumPy and zipfile raise for a file that is cut short, overwritten in parts, or something else altogether.
_UNREADABLE = (
    ValueError,
    OSError,
    EOFError,
    KeyError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RecursionError,
    MemoryError,
)


def save_posterior(path: str | Path, posterior: Any, *, keep_surrogate: bool = True) -> Path:
    """Write `posterior` to exactly `path`, all or nothing: a crash leaves the file that was there before.

    With `keep_surrogate=False` the model is left out, for models with kernels of one's own; `load_posterior` is then given it.
    """
    arrays, meta = posterior_to_arrays(posterior, keep_surrogate=keep_surrogate)
    header = np.frombuffer(json.dumps(meta, allow_nan=False).encode(), dtype=np.uint8)
    path = Path(path)
    with replacing(path) as unfinished, open(unfinished, "xb") as file:
        np.savez(file, allow_pickle=False, **{_HEADER: header}, **arrays)
    return path


def load_posterior(path: str | Path, *, surrogate: Any = None) -> Any:
    """The posterior that `save_posterior` wrote. `surrogate` is needed where it was saved without one."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"a posterior is loaded from a file that exists; there is none at {str(path)!r}. Check the path.")
    try:
        arrays = dict(read_archive(path))
        if _HEADER not in arrays:
            raise InputError(f"{str(path)!r} is an NPZ file but holds no posterior; it was not written by save_posterior.")
        meta = json.loads(arrays.pop(_HEADER).tobytes().decode())
    except InputError:
        raise
    except (AttributeError, TypeError, *_UNREADABLE) as error:
        if not is_archive(path):  # NumPy takes it for a pickle, and would advise to trust it
            raise InputError(
                f"{str(path)!r} cannot be read as a posterior: it is not an NPZ file, which save_posterior and export write."
            ) from None
        why = f"it is cut short or damaged; restore it from a copy ({type(error).__name__}: {error})"
        raise InputError(f"{str(path)!r} cannot be read as a posterior: {why}.") from error
    return posterior_from_arrays(arrays, meta, surrogate=surrogate)


@float64
def posterior_to_arrays(posterior: Any, *, keep_surrogate: bool = True) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """A posterior as named arrays and a header that JSON can hold, for those who keep files of their own."""
    writer = _Writer(posterior if not keep_surrogate else None)
    meta = {"format": FORMAT, "version": VERSION, "hyperleaf": version("hyperleaf"), "posterior": writer.write(posterior)}
    return writer.arrays, meta


@float64
def posterior_from_arrays(arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any], *, surrogate: Any = None) -> Any:
    """The posterior behind the two parts that `posterior_to_arrays` returned."""
    if not isinstance(meta, Mapping) or meta.get("format") != FORMAT:
        raise InputError(
            f'the header of a posterior says format "{FORMAT}"; this one does not, so it was written by something else.'
        )
    if type(meta.get("version")) is not int or not 1 <= meta["version"] <= VERSION:
        raise InputError(
            f"this hyperleaf reads posteriors up to format version {VERSION}; got version {meta.get('version')!r}, written by "
            f"hyperleaf {meta.get('hyperleaf')}. Install that version or a newer one."
        )
    try:
        return _Reader(arrays, surrogate, meta["version"]).read(meta["posterior"])
    except (KeyError, TypeError, IndexError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the posterior is incomplete or damaged: {type(error).__name__} {error}. Restore it from a copy."
        ) from error


@contextmanager
def whole(path: str | Path) -> Iterator[None]:
    """What is missing or of a wrong kind in the content of a file that could be read: a sentence."""
    try:
        yield
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{str(path)!r} is incomplete or damaged: {type(error).__name__} {error}. Restore it from a copy."
        ) from error


class _Writer:
    def __init__(self, without_surrogate: Any) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._without_surrogate = without_surrogate
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}  # arrays held twice are written once

    def write(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | str) or type(value) is int:
            return value
        if type(value) is float:
            return value if np.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray | np.generic | jax.Array):
            return self._array(value)
        if isinstance(value, Distribution | Constraint | Transform):
            return {"tag": _tag(value), "fields": self._fields(_numpyro_fields(value))}
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            return {"tag": _tag(value), "fields": self._fields(value._asdict())}
        if isinstance(value, tuple | list):
            return {type(value).__name__: [self.write(entry) for entry in value]}
        if isinstance(value, Mapping):
            return {"dict": [[self.write(key), self.write(entry)] for key, entry in value.items()]}
        if is_dataclass(value) and not isinstance(value, type):
            return self._record(value)
        raise InputError(
            f"a file holds numbers, arrays, strings, tuples and hyperleaf's own classes; got {_class_name(type(value))}. "
            "Save with keep_surrogate=False and give the surrogate to load_posterior."
        )

    def _record(self, value: Any) -> dict[str, Any]:
        values = {field.name: getattr(value, field.name) for field in fields(value) if field.init and hasattr(value, field.name)}
        if isinstance(value, Diagnostics):
            values["extra"] = {key: entry for key, entry in value.extra.items() if self._can_write(entry)}
        if value is self._without_surrogate and values.pop("surrogate", None) is None:
            raise InputError(f"keep_surrogate=False needs a posterior with a surrogate; {type(value).__name__} has none.")
        return {"tag": _tag(value), "fields": self._fields(values)}

    def _can_write(self, value: Any) -> bool:
        try:
            _Writer(None).write(value)
        except InputError:
            return False
        return True

    def _fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.write(value) for name, value in values.items()}

    def _array(self, value: Any) -> dict[str, Any]:
        if id(value) in self._known:
            return self._known[id(value)][1]
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            raise InputError(f"a file holds arrays of numbers; got one of type {array.dtype}. Leave it out.")
        name = f"a{len(self.arrays)}"
        entry: dict[str, Any] = {"array": name}
        if isinstance(value, jax.Array):
            entry["of"] = "jax"
        elif isinstance(value, np.generic):
            entry["of"] = "scalar"
        count = _triangle(array)
        if count is not None:
            entry["triangle"] = [count, array.shape[-1]]
            array = array[(..., *np.tril_indices(count))]
        self.arrays[name] = array
        self._known[id(value)] = (value, entry)  # holding the value keeps its id from being used again
        return entry


class _Reader:
    def __init__(self, arrays: Mapping[str, NDArray[Any]], surrogate: Any, version: int) -> None:
        self._arrays, self._surrogate, self._version = arrays, surrogate, version
        self._made: dict[str, Any] = {}
        self._depth = 0

    def read(self, node: Any) -> Any:
        if not isinstance(node, dict):
            if isinstance(node, list):
                raise TypeError("a bare list in the header")
            return node
        if "float" in node:
            return float(node["float"])
        if "array" in node:
            return self._array(node)
        if "tag" in node or "class" in node:
            return self._object(node)
        (kind, entries), *rest = node.items()
        if kind == "dict" and not rest:
            return {self.read(key): self.read(entry) for key, entry in entries}
        if kind in ("tuple", "list") and not rest:
            read = [self.read(entry) for entry in entries]
            return tuple(read) if kind == "tuple" else read
        raise TypeError(f"an entry of unknown kind {kind!r} in the header")

    def _object(self, node: dict[str, Any]) -> Any:
        top, self._depth = self._depth == 0, self._depth + 1
        tag, cls = _class(node, self._version)
        values = changed(tag, {name: self.read(entry) for name, entry in node["fields"].items()}, self._version)
        self._depth -= 1
        if cls is dict:  # a class that is no more
            return values
        if issubclass(cls, Distribution):
            data, aux = cls.gather_pytree_data_fields(), cls.gather_pytree_aux_fields()
            made = cls.tree_unflatten(tuple(values.get(name) for name in aux), tuple(values.get(name) for name in data))
            made.__dict__.pop("_validate_args", None)  # set by the line above; part of what compiled code is looked up by
            made.__dict__.update({"_validate_args": values["_validate_args"]} if "_validate_args" in values else {})
            return made
        if issubclass(cls, Constraint | Transform):
            return cls.tree_unflatten((tuple(values), {}), tuple(values.values()))
        if issubclass(cls, tuple):
            return cls(**values)
        if top and "surrogate" not in values and any(field.name == "surrogate" for field in fields(cls)):
            if self._surrogate is None:
                raise InputError(
                    "this posterior was saved without its surrogate; give load_posterior the one it was fitted with."
                )
            values["surrogate"] = self._surrogate
        _check_fields(cls, values)
        if not issubclass(cls, eqx.Module):
            return cls(**values)
        made = object.__new__(cls)  # a module's own __init__ may take other arguments than its fields
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    def _array(self, node: dict[str, Any]) -> Any:
        name = node["array"]
        if name not in self._made:
            array = self._arrays[name]
            if "triangle" in node:
                count, size = node["triangle"]
                full = np.zeros((*array.shape[:-1], size, size), array.dtype)
                full[(..., *np.tril_indices(count))] = array
                full[..., range(count, size), range(count, size)] = 1
                array = full
            kind = node.get("of")
            self._made[name] = put(array) if kind == "jax" else array[()] if kind == "scalar" else array
        return self._made[name]


def _triangle(array: NDArray[Any]) -> int | None:
    """k if the matrices are blockdiag(L, I) with L lower triangular of size k, such as padded factors; only L need be kept."""
    if array.ndim < 2 or array.dtype != np.float64 or array.shape[-1] != array.shape[-2] or array.shape[-1] < 2:
        return None
    size = array.shape[-1]
    if np.triu(array.view(np.int64), 1).any():  # bits, because −0 is not 0
        return None
    matrices = array.reshape(-1, size, size)
    tail = (matrices == np.eye(size)).all(axis=(0, 2))
    return size - int(np.argmin(tail[::-1])) if not tail.all() else 0


def _numpyro_fields(value: Any) -> dict[str, Any]:
    """The attributes that make a distribution, a constraint or a transform, by name: their order changes between processes."""
    if isinstance(value, Distribution):
        names = {*type(value).gather_pytree_data_fields(), *type(value).gather_pytree_aux_fields()}
        return {name: value.__dict__[name] for name in sorted(names) if name in value.__dict__}
    params, (names, aux) = value.tree_flatten()
    return {**dict(zip(names, params, strict=True)), **aux}


def _class_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _tag(value: Any) -> str:
    """The tag under which the class of `value` is written."""
    tag = tag_of(type(value))
    if tag is None:
        raise InputError(
            f"a file holds classes of hyperleaf and numpyro.distributions that have a tag; {_class_name(type(value))} has none. "
            "Save with keep_surrogate=False and give the surrogate to load_posterior, or keep posterior.data and fit again."
        )
    return tag


def _class(node: Mapping[str, Any], version: int) -> tuple[str, Any]:
    """The tag and the class that an entry names, looked up in tables of ours and nowhere else."""
    name = node["class"] if "class" in node else node["tag"]
    tag = PATHS_1.get(name) if version == 1 else name
    cls = None if tag is None else class_of(tag)
    if tag is None or cls is None:
        raise InputError(
            f"a posterior is made of classes that hyperleaf has a tag for; {name!r} is none that is known here. "
            "Load it with the version of hyperleaf that wrote it."
        )
    return tag, cls


def _check_fields(cls: Any, values: dict[str, Any]) -> None:
    """Fill in fields that were added since with their defaults; refuse what this version does not know."""
    known = {field.name: field for field in fields(cls) if field.init}
    for name in {field.name for field in fields(cls)} - known.keys():
        values.pop(name, None)  # for convenience, made anew; older files hold it
    unknown, missing = sorted(values.keys() - known.keys()), []
    for name in known.keys() - values.keys():
        factory = known[name].default_factory
        if known[name].default is not MISSING:
            values[name] = known[name].default
        elif factory is not MISSING:
            values[name] = factory()
        else:
            missing.append(name)
    if unknown or missing:
        raise InputError(
            f"{_class_name(cls)} has other fields here than in the file (unknown: {unknown}, missing: {sorted(missing)}). "
            "Load it with the version of hyperleaf that wrote it."
        )
