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

    from hyperleaf.simulators.table import read_csv_table

    model = load_model(surrogate)
    rows = read_csv_table(points, model.domain, ())[0]
    if not rows:
        raise DataError(f"a table of points must have at least one row; {points} has none.")
    rows = model.domain.to_dicts(rows)
    mixture = model.predict(rows, noisy=noisy)
    low, high = mixture.interval(INTERVAL)
    table = pd.DataFrame(rows, columns=list(model.domain.names))
    name = model.output
    for column, values in (("mean", mixture.mean()), ("std", mixture.std()), ("low", low), ("high", high)):
        table[f"{name}_{column}"] = values
    return {"output": name, "unit": model.unit, "interval": INTERVAL, "noisy": noisy}, table


def check_readable(path: Path) -> None:
    """Refuse what is no surrogate at a glance, such as the table of points when the two are swapped."""
    if path.is_dir():
        raise InputError(f"a surrogate must be a file that hyperleaf export wrote; {path} is a folder.")
    if path.is_file() and not is_archive(path):
        raise InputError(
            f"a surrogate must be an .npz file that hyperleaf export wrote; {path} is none. "
            "Name it first and the points second: hyperleaf predict surrogate.npz points.csv"
        )


def write_csv(path: Path, table: Any) -> None:
    with replace_file(path) as unfinished:
        table.to_csv(unfinished, index=False)


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A new file beside `path` that takes its place if all goes well: nobody sees half of it."""
    check_folder(path)
    with replacing(path) as unfinished:
        yield unfinished
