"""Take it with you: what was learned in the forms in which engineers use models, and the tables of a study.

One file per format, found by the ending of the name that is asked for; `ingredients` is what all surrogates are written out of,
`certificate` what goes with them. A new format is one more file here with a `FORMAT`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes, models_of

__all__ = ["Format", "Source", "Wishes", "check_folder", "export", "export_with_facts", "format_of", "formats", "models_of"]


@cache
def formats() -> dict[str, Format]:
    """All formats, by the endings they answer to."""
    found: dict[str, Format] = {}
    for module in iter_modules(__path__):
        one = getattr(import_module(f"{__name__}.{module.name}"), "FORMAT", None)
        if one is not None:
            found |= {ending: one for ending in one.endings}
    return found


def format_of(path: str | Path) -> Format:
    """That of a file of this name."""
    known = formats()
    ending = Path(path).suffix.lower()
    if ending not in known:
        listed = ", ".join(f"{end} ({one.title})" for end, one in sorted(known.items()))
        raise InputError(f"what is exported follows from the name of the file: {listed}; got {str(path)!r}.")
    return known[ending]


def export(
    held: Any,
    path: str | Path,
    *,
    output: str | Sequence[str] | None = None,
    noisy: bool = False,
    quantiles: Sequence[float] = (),
    tolerance: float | None = None,
    derivatives: bool = False,
) -> Path:
    """Write a study, a fitted estimator, or a model that was loaded, in the form that the name of the file asks for.

    `output` names one or several outputs of a study; all that the form can hold are taken by itself. `noisy` predicts a new
    observation in place of the latent value, `quantiles` adds those of the mixture, `derivatives` the slopes of the latent value
    by the real inputs, and `tolerance` thins the draws to as few as keep mean and std to within that share of the std.
    """
    export_with_facts(held, path, Wishes.of(output, noisy, quantiles, tolerance, derivatives))
    return Path(path)


def export_with_facts(held: Any, path: str | Path, wishes: Wishes) -> dict[str, Any]:
    """The same, and what was written."""
    target = Path(path)
    one = format_of(target)
    check_folder(target)
    return one.write(target, Source(held), wishes)


def check_folder(path: Path) -> None:
    """Refuse a path to which no file can be written."""
    if path.is_dir():
        raise InputError(f"a file is written here; {path} is a folder.")
    if path.exists() and not path.is_file():
        raise InputError(f"a file is written here; {path} is a pipe or a device. Name a file.")
    if not path.parent.is_dir():
        raise InputError(f"a file is written into a folder that exists; {path.parent} does not. Make it first.")
