"""Excel files as rows of texts, by openpyxl; only the first sheet of a file is looked at, and of formulas what they last gave.

An .xlsx is a zip of XML. What it says of its size is checked before it is unpacked, and reading ends at a number of cells.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.io import read_file
from hyperleaf.simulators.base import BadOutput

SUFFIXES = (".xlsx", ".xlsm")
LARGEST = 64 * 2**20  # bytes
UNPACKED = 256 * 2**20
MOST_CELLS = 5_000_000
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eEdD][+-]?\d+)?|[+-]?\d+,(?:[eEdD][+-]?\d+)?", re.ASCII)
EMPTY_ROWS = 10_000  # in a row, after which a sheet is taken to have ended


def is_workbook(path: str | Path) -> bool:
    return Path(path).suffix.lower() in SUFFIXES


def read_workbook(path: str | Path) -> list[tuple[int, list[str]]]:
    """The rows of the first sheet that are not empty, with the numbers that Excel shows; OSError or BadOutput."""
    _openpyxl()
    import openpyxl

    content = read_file(path, LARGEST)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            whole = sum(entry.file_size for entry in archive.infolist())
        if whole > UNPACKED:
            raise BadOutput(f"an Excel file must unpack to at most {UNPACKED} bytes; this one says {whole}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations, which nobody asked for
            book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            return _rows(book.worksheets[0].iter_rows(values_only=True)) if book.worksheets else []
    except BadOutput:
        raise
    except Exception as error:  # of whatever kind: openpyxl checks little of what it reads
        raise BadOutput(f"it is no Excel file, or a damaged one: {type(error).__name__} {str(error)[:200]}".rstrip()) from None


def write_workbook(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """A file with one sheet."""
    _openpyxl()
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("queries")
    for row in rows:
        sheet.append(list(row))
    book.save(path)


def _rows(rows: Iterable[Sequence[Any]]) -> list[tuple[int, list[str]]]:
    found, cells, last = [], 0, 0
    for line, row in enumerate(rows, 1):
        texts = [_text(value) for value in row]
        cells += len(texts)
        if cells > MOST_CELLS:
            raise BadOutput(f"a sheet must have at most {MOST_CELLS} cells; this one has more. Keep the columns that are needed")
        if any(texts):
            found.append((line, texts))
            last = line
        elif line - last > EMPTY_ROWS:
            break
    width = max((k + 1 for _, row in found for k, text in enumerate(row) if text), default=0)  # formatted columns are no data
    return [(line, (row + [""] * width)[:width]) for line, row in found]


def _text(value: Any) -> str:
    """As it would be written in a CSV: numbers to the last bit, whole ones without a point. A text like 2,5 is a number that
    was typed with another keyboard than the file was set up for; other numbers have no commas here."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, float):
        return repr(value)
    text = str(value).strip()
    return text.replace(",", ".") if DECIMAL_COMMA.fullmatch(text) else text


def _openpyxl() -> None:
    from importlib.util import find_spec

    if find_spec("openpyxl") is None:
        raise InputError(
            "Excel files need openpyxl, which is not installed. Run: pip install 'hyperleaf[excel]', or save the sheet as CSV."
        )
