"""Files that commands read and write: surrogates, tables of points, sheets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperleaf.errors import DataError, InputError
from hyperleaf.exports import check_folder
from hyperleaf.io import is_archive, replacing
from hyperleaf.study import load_model

INTERVAL = 0.9


def predict(surrogate: Path, points: Path, noisy: bool) -> tuple[dict[str, Any], Any]:
    """What was predicted, and the table: inputs, mean, std, and the interval from low to high."""
    import pandas as pd

    from hyperleaf.cli.streaming import blocks, predicted

    model = load_model(surrogate)
    found = [predicted(model, rows, noisy) for rows, _ in blocks(points, model.domain)]
    if not found:
        raise DataError(f"a table of points must have at least one row; {points} has none.")
    return facts_of(model, noisy), pd.concat(found, ignore_index=True)


def facts_of(model: Any, noisy: bool) -> dict[str, Any]:
    """What the figures of a prediction are."""
    return {"output": model.output, "unit": model.unit, "interval": INTERVAL, "noisy": noisy}


def check_readable(path: Path) -> None:
    """Refuse what is no surrogate at a glance, such as the table of points when the two are swapped."""
    if path.is_dir():
        raise InputError(f"a surrogate must be a file that hyperleaf export wrote; {path} is a folder.")
    if path.is_file() and not is_archive(path):
        raise InputError(
            f"a surrogate must be an .npz file that hyperleaf export wrote; {path} is none. "
            "Name it first and the points second: hyperleaf predict surrogate.npz points.csv"
        )


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A new file beside `path` that takes its place if all goes well: nobody sees half of it."""
    check_folder(path)
    with replacing(path) as unfinished:
        yield unfinished
