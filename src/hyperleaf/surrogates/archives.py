"""NPZ files from anywhere, read within bounded memory: what a file says of itself is checked before it is believed.

A few kilobytes of zip can say that they hold terabytes, and an array of a few bytes that it has a billion entries; NumPy would
make room for either. So the directory of the archive, and the header of each array, are looked at first.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hyperleaf.errors import InputError

LARGEST = 2**31  # bytes of all arrays of a file together
MOST_ENTRIES = 100_000


def read_archive(source: str | Path | BinaryIO) -> Mapping[str, NDArray[Any]]:
    """All arrays of an NPZ file by their names; InputError for one that says it is larger than it may be or than it is."""
    with zipfile.ZipFile(source) as archive:
        entries = archive.infolist()
        if len(entries) > MOST_ENTRIES:
            raise InputError(f"an NPZ file must have at most {MOST_ENTRIES} arrays; this one says it has {len(entries)}.")
        whole = sum(entry.file_size for entry in entries)
        if whole > LARGEST:
            raise InputError(f"an NPZ file must hold at most {LARGEST} bytes; this one says it holds {whole}.")
        return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(entry) as file:
        try:
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
            shape, fortran, dtype = read(file)
        except Exception as error:  # NumPy takes the header for Python, and all that can be wrong with that comes out
            raise ValueError(f"{entry.filename} has no header of an array ({type(error).__name__})") from error
        if dtype.hasobject:
            raise ValueError(f"{entry.filename} holds objects, which are never read")
        size = dtype.itemsize
        for length in shape:
            size *= length
        if size > entry.file_size:
            raise ValueError(f"{entry.filename} says it holds {size} bytes and has {entry.file_size}")
        values = file.read(size)
        if len(values) != size:
            raise ValueError(f"{entry.filename} is cut short")
        return np.frombuffer(values, dtype=dtype).reshape(shape, order="F" if fortran else "C").copy()
