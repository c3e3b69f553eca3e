"""From what a person writes, in Python or in the [simulator] part of a study.toml, to a simulator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hyperleaf.checks import alike
from hyperleaf.errors import InputError
from hyperleaf.simulators.base import Simulator, check_outputs
from hyperleaf.simulators.command import CommandSimulator
from hyperleaf.simulators.function import FunctionSimulator

# kind → the further keys it takes
FURTHER_KEYS: dict[str, tuple[str, ...]] = {
    "command": ("timeout", "input", "output", "output_file", "search", "run_in", "runs"),
    "function": (),
    "table": (),
}
_FORMS = 'a function, "module:name", a command like "./solver {input} {output}", or a path ending in .csv'


def as_simulator(
    spec: Any,
    outputs: Iterable[str] | str | None = None,
    *,
    domain: Any = None,
    folder: str | Path | None = None,
    study: str | None = None,
    units: Mapping[str, str] | None = None,
) -> Simulator:
    """A simulator from a callable, a text, a path, a mapping with one of command, function, table; a simulator is left as it is.

    `outputs` are the names it must give, `domain` the inputs, against which names and formats are checked at once, and
    `folder` that of the study, from which paths and modules are found (the current one by default). `study` is its name, under
    which a command's runs have their folders; `units` are those of the outputs, which the header of a table must not contradict.
    """
    if isinstance(spec, Simulator):
        missing = [name for name in (check_outputs(outputs) if outputs is not None else ()) if name not in spec.outputs]
        if missing:
            raise InputError(f"the simulator must give the output {missing[0]!r}; it gives {list(spec.outputs)}. Add it there.")
        return spec
    if isinstance(spec, str):
        spec = _from_text(spec)
    elif isinstance(spec, Path):
        spec = {"table": spec}
    elif callable(spec):
        spec = {"function": spec}
    if not isinstance(spec, Mapping):
        raise InputError(f"a simulator must be {_FORMS}, or a mapping with one of {list(FURTHER_KEYS)}; got {spec!r:.80}.")
    if outputs is None:
        raise InputError('a simulator must know its outputs; got none. Pass outputs=["…"].')
    kind = _kind(spec)
    options = {key: value for key, value in spec.items() if key != kind}
    if kind == "command":
        return CommandSimulator(spec[kind], outputs, folder=folder, inputs=domain, study=study, **options)
    if kind == "function":
        return FunctionSimulator(spec[kind], outputs, folder=folder, inputs=domain)
    from hyperleaf.simulators.table import TableSimulator  # needs NumPy, which the others do not

    return TableSimulator(spec[kind], domain, outputs, folder=folder, units=units)


def _from_text(text: str) -> dict[str, Any]:
    text = text.strip()
    if re.fullmatch(r"[\w.]+:[\w.]+", text):
        return {"function": text}
    if text.lower().endswith(".csv") and len(text.split()) == 1:
        return {"table": text}
    if "/" in text or "{" in text or len(text.split()) > 1:
        return {"command": text}
    raise InputError(f"a simulator must be {_FORMS}; got {text!r}. Write one of these.")


def _kind(spec: Mapping[Any, Any]) -> str:
    known = {*FURTHER_KEYS, *(key for keys in FURTHER_KEYS.values() for key in keys)}
    for key in spec:
        if key not in known:
            raise InputError(f"a key of a simulator must be one of {sorted(known)}; got {key!r}.{alike(key, known)}")
    kinds = [kind for kind in FURTHER_KEYS if kind in spec]
    if len(kinds) != 1:
        raise InputError(f"a simulator must have exactly one of {list(FURTHER_KEYS)}; got {kinds or 'none'}. Keep one.")
    for key in spec:
        if key != kinds[0] and key not in FURTHER_KEYS[kinds[0]]:
            allowed = list(FURTHER_KEYS[kinds[0]]) or "no further keys"
            raise InputError(f"a simulator with {kinds[0]!r} may only have {allowed}; got {key!r}. Drop it.")
    return kinds[0]
