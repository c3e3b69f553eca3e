"""Tables of finished runs: read from a path that the user gives, or fetched from an address that the user gives.

None of them is part of the package. A reader says what it misses, in which format, and where such a file is to be had.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np

from hyperleaf.errors import DataError, InputError
from hyperleaf.io import replacing

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]

LGBB_COLUMNS = ("mach", "alpha", "beta", "lift", "drag", "pitch", "side", "yaw", "roll")
NOISE_COLUMNS = ("Delay", "Pilotinjection", "Railpressure", "Airmass", "Boostpressure", "Controlstart", "Noise")
ENGINE_INPUTS = ("engine_speed", "engine_load", "intake_valve_opening", "air_fuel_ratio")
ENGINE_OUTPUTS = (
    "specific_fuel_consumption",
    "temperature_exhaust_manifold",
    "temperature_in_catalyst",
    "engine_roughness_v",
    "engine_roughness_s",
    "HC",
    "NOx",
)
ENGINE_LICENCE = "Bosch-Engine-Datasets (pengines, engine 1), Robert Bosch GmbH, CC BY-SA 4.0"
ENGINE_SHA256 = "29bcee1ae739e364d5efdfe19a1926e02528c54b1e44a69b06f85c85174167e0"  # of engine1.csv, 795 rows, six digits

_LGBB_SOURCE = (
    "lgbb_original.txt comes with R. B. Gramacy's book Surrogates, among the data on its page; it is not ours to pass on. "
    f"Its format: comment lines with #, then the header {' '.join(LGBB_COLUMNS)}, then rows, separated by blanks"
)
_NOISE_SOURCE = (
    "close_pi.csv is not public: ask the authors of the paper, or bring a table of your own. "
    f"Its format: comma-separated with the header {','.join(NOISE_COLUMNS)}"
)
_ENGINE_SOURCE = (
    f"the table is public: {ENGINE_LICENCE}; fetch(address, path) of hyperleaf.bench downloads it from an address that you give. "
    "Its format: CSV, a folder with engine1.csv, or the spreadsheet engine1_normalized.xlsx, with the columns "
    f"{','.join(ENGINE_INPUTS + ENGINE_OUTPUTS)}"
)


def read_lgbb(path: PathLike | None) -> pd.DataFrame:
    """mach, alpha and lift of the runs with beta = 0, in the units of the file."""
    frame = _read(path, "lgbb", _LGBB_SOURCE, LGBB_COLUMNS, sep=r"\s+", comment="#")
    frame = frame[frame["beta"] == 0]
    if frame.empty:
        raise DataError(f"{path} must have rows with beta = 0, for they are the task; got none. {_LGBB_SOURCE}.")
    return frame[["mach", "alpha", "lift"]].reset_index(drop=True)


def read_engine_noise(path: PathLike | None) -> pd.DataFrame:
    """The six inputs and Noise (dB)."""
    return _read(path, "close-pi", _NOISE_SOURCE, NOISE_COLUMNS)


def read_engine(path: PathLike | None, output: str) -> pd.DataFrame:
    """The four inputs and one output of the public engine; a folder stands for the engine1.csv in it."""
    if path is not None and Path(path).is_dir():
        path = Path(path) / "engine1.csv"
    return _read(path, engine_task(output), _ENGINE_SOURCE, (*ENGINE_INPUTS, output))


def engine_task(output: str) -> str:
    """The name of the task that learns this output of the public engine."""
    return f"engine-{output.removeprefix('engine_').lower().replace('_', '-')}"


def fetch(address: str, path: PathLike, sha256: str = ENGINE_SHA256) -> Path:
    """Download the file at `address` to `path`, which is written only if its SHA-256 is the one stated; returns the path.

    The default is the checksum of the public engine data as a CSV with six digits; give the file's own for any other. A file
    that is already there with that checksum is left as it is, and nothing is downloaded. By fetching the engine data you
    accept its licence: `ENGINE_LICENCE`.
    """
    path = Path(path)
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256.lower():
        return path
    if path.exists():
        raise DataError(f"{path} is there, but its SHA-256 is not {sha256}. Move it away, or give another path.")
    if urlsplit(address).scheme not in ("https", "http", "file"):
        raise InputError(f"an address must begin with https://, http:// or file://; got {address!r}. Give the full address.")
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    try:
        with replacing(path) as unfinished:
            with open(unfinished, "xb") as file, urlopen(address, timeout=60) as answer:
                while block := answer.read(1 << 16):
                    digest.update(block)
                    file.write(block)
            if digest.hexdigest() != sha256.lower():
                raise DataError(
                    f"the file at {address} must have the SHA-256 {sha256}; got {digest.hexdigest()}. Nothing was kept. "
                    "Check the address, or state the checksum of the file that you mean."
                )
    except (URLError, TimeoutError, ConnectionError) as error:
        raise DataError(f"the file at {address} could not be downloaded ({error}). Check the address and the network.") from error
    return path


def _read(path: PathLike | None, task: str, source: str, columns: tuple[str, ...], **options: str) -> pd.DataFrame:
    """The named columns as finite floats; every way in which a file can fail names the file and the format."""
    import pandas as pd

    if path is None:
        raise InputError(
            f"the task {task!r} reads a file; got no path. Give it with --path {task}=FILE, in Python task({task!r}, path=…): "
            f"{source}."
        )
    if not Path(path).is_file():
        raise DataError(f"the file of the task {task!r} must exist; there is none at {path}. Give its path: {source}.")
    try:
        frame = pd.read_excel(path) if Path(path).suffix == ".xlsx" else pd.read_csv(path, **options)
    except ImportError as error:
        raise DataError(f"{path} is a spreadsheet, which needs openpyxl ({error}). Install it, or save it as CSV.") from error
    except (ValueError, pd.errors.ParserError) as error:  # an empty file, other separators, not text
        raise DataError(f"{path} could not be read as a table ({error}). {source}.") from error
    frame.columns = frame.columns.astype(str).str.strip()
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise DataError(f"{path} must have the columns {list(columns)}; {missing} missing, got {list(frame.columns)}. {source}.")
    numbers = frame[list(columns)].apply(pd.to_numeric, errors="coerce").astype(np.float64)
    bad = np.argwhere(~np.isfinite(numbers.to_numpy()))
    if len(bad):
        row, column = bad[0]
        where = f"row {row + 1} below the header" if "comment" in options else f"line {row + 2}"  # as a spreadsheet shows it
        raise DataError(
            f"{path} must hold finite numbers; got {frame[columns[column]].iloc[row]!r} in {where}, column {columns[column]!r} "
            f"({len(bad)} such). Drop or repair those rows."
        )
    return numbers
