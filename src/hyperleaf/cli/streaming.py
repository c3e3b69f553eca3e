"""Predictions for tables of any length, in bounded memory: block by block in, block by block out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyperleaf.cli.files import INTERVAL, replace_file
from hyperleaf.domain import Domain
from hyperleaf.errors import DataError, InputError
from hyperleaf.simulators.readers import read_sheet
from hyperleaf.simulators.table import points_of_sheet, read_csv_table
from hyperleaf.simulators.workbooks import is_workbook

BLOCK = 2**14  # rows at a time
WHOLE = 2**22  # bytes up to which a file is read at once
Report = Callable[[float], None]


def predict_to(target: Path, model: Any, points: Path, noisy: bool, report: Report) -> int:
    """Write the table of predictions at the points of a file, CSV or Parquet as the names say; how many rows there were.
    `report` is told the share that is done."""
    rows = 0
    with replace_file(target) as unfinished, _writer(unfinished) as write:
        for block, share in blocks(points, model.domain):
            table = predicted(model, block, noisy)
            write(table)
            rows += len(table)
            report(share)
    if not rows:
        raise DataError(f"a table of points must have at least one row; {points} has none.")
    return rows


def predict_lines(model: Any, points: Path, noisy: bool) -> Iterator[str]:
    """The same table as CSV for a terminal or a pipe, block by block."""
    begun = False
    for block, _ in blocks(points, model.domain):
        yield predicted(model, block, noisy).to_csv(index=False, header=not begun, lineterminator="\n")
        begun = True
    if not begun:
        raise DataError(f"a table of points must have at least one row; {points} has none.")


def predicted(model: Any, rows: list[dict[str, Any]], noisy: bool) -> Any:
    """A DataFrame: inputs, mean, std, and the interval from low to high."""
    import pandas as pd

    mixture = model.predict(rows, noisy=noisy)
    low, high = mixture.interval(INTERVAL)
    table = pd.DataFrame(rows, columns=list(model.domain.names))
    for column, values in (("mean", mixture.mean()), ("std", mixture.std()), ("low", low), ("high", high)):
        table[f"{model.output}_{column}"] = values
    return table


def blocks(path: Path, domain: Domain) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """Points of a file, some at a time, and the share of the file that was read then."""
    if path.suffix.lower() == ".parquet":
        yield from _of_parquet(path, domain)
    elif is_workbook(path) or not path.is_file() or path.stat().st_size <= WHOLE:
        rows = domain.to_dicts(found) if (found := read_csv_table(path, domain, ())[0]) else []
        for start in range(0, len(rows), BLOCK):
            yield rows[start : start + BLOCK], min((start + BLOCK) / len(rows), 1.0)
    else:
        yield from _of_csv(path, domain)


def _of_parquet(path: Path, domain: Domain) -> Iterator[tuple[list[dict[str, Any]], float]]:
    parquet = _parquet()
    try:
        file = parquet.ParquetFile(path)
    except (OSError, ValueError) as error:
        raise DataError(f"a table must be a CSV, Excel or Parquet file; {path} cannot be read ({error}).") from None
    with file:
        missing = [name for name in domain.names if name not in file.schema_arrow.names]
        if missing:
            wanted = list(domain.names)
            raise DataError(f"a table must have the columns {wanted}; {path} has no {missing[0]!r}. Rename or add it.")
        done = 0
        for batch in file.iter_batches(BLOCK, columns=list(domain.names)):
            done += batch.num_rows
            yield domain.to_dicts(batch.to_pandas()), done / file.metadata.num_rows


def _of_csv(path: Path, domain: Domain) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """Lines in blocks, each read like a file with the header of this one."""
    size = path.stat().st_size
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header, number, read = "", 0, 0
            lines: list[str] = []
            for line in file:
                number, read = number + 1, read + len(line)
                if not header.strip():
                    header, first = line.rstrip("\r\n"), number
                    continue
                lines.append(line)
                if len(lines) >= BLOCK and sum(one.count('"') for one in lines) % 2 == 0:
                    yield _block(header, lines, first, path, domain), min(read / size, 1.0)
                    first, lines = number, []
            if lines:
                yield _block(header, lines, first, path, domain), 1.0
    except UnicodeDecodeError as error:
        raise DataError(f"a table must be a CSV file in UTF-8; {path} cannot be read ({error}).") from None


def _block(header: str, lines: list[str], before: int, path: Path, domain: Domain) -> list[dict[str, Any]]:
    sheet = read_sheet(header + "\n" + "".join(lines), domain.names)
    points, _, _ = points_of_sheet(sheet, path, domain, (), skipped=before - 1)
    return domain.to_dicts(points) if points else []


@contextmanager
def _writer(path: Path) -> Iterator[Callable[[Any], None]]:
    """What appends a table to a file of that name."""
    if path.suffix.lower() == ".parquet":
        import pyarrow

        parquet = _parquet()
        made: list[Any] = []

        def write(table: Any) -> None:
            rows = pyarrow.Table.from_pandas(table, preserve_index=False)
            made.extend([] if made else [parquet.ParquetWriter(path, rows.schema)])
            made[0].write_table(rows)

        try:
            yield write
        finally:
            for one in made:
                one.close()
        return
    with open(path, "w", encoding="utf-8", newline="") as file:
        begun: list[bool] = []

        def append(table: Any) -> None:
            table.to_csv(file, index=False, header=not begun, quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
            begun.append(True)

        yield append


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow, which is not installed. Run: pip install 'hyperleaf[export]'") from None
    return pyarrow.parquet
