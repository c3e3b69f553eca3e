"""What `hyperleaf export` writes and `hyperleaf predict` reads: the table of runs, the posterior for ArviZ, the surrogate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hyperleaf.errors import DataError, InputError
from hyperleaf.io import is_archive, replacing
from hyperleaf.study import Study, load_model, tables

INTERVAL = 0.9


def writer_of(path: Path) -> Callable[[Path, Study, str | None], dict[str, Any]]:
    """What writes a file of that name."""
    writers = {".csv": write_table, ".parquet": write_table, ".nc": write_posterior, ".npz": write_surrogate}
    if path.suffix.lower() not in writers:
        raise InputError(
            "what is exported follows from the name of the file: .csv or .parquet for the table of runs, .nc for the posterior, "
            f".npz for the surrogate; got {str(path)!r}."
        )
    return writers[path.suffix.lower()]


def write_table(path: Path, study: Study, output: str | None) -> dict[str, Any]:
    """All outputs; one that is named must be there all the same."""
    if output is not None:
        _output(study, output)
    if path.suffix.lower() == ".csv":
        record = study.snapshot().record
        with replace_file(path) as unfinished:
            unfinished.write_text(tables.csv_of(record, study.domain.names, study.outputs), encoding="utf-8")
        rows = len(record.queries)
    else:
        table = study.table()
        with replace_file(path) as unfinished:
            try:
                table.to_parquet(unfinished, index=False)
            except ImportError:
                raise InputError("Parquet needs pyarrow, which is not installed. Run: pip install 'hyperleaf[export]'") from None
        rows = len(table)
    return {"what": f"{rows} queries", "rows": rows}


def write_surrogate(path: Path, study: Study, output: str | None) -> dict[str, Any]:
    name = _output(study, output)
    check_folder(path)
    study.save_model(path, name)
    return {"what": f"the surrogate of {name}", "output": name}


def write_posterior(path: Path, study: Study, output: str | None) -> dict[str, Any]:
    """ArviZ's groups in one NetCDF file. Draws with unequal weights are resampled, so that each counts the same in ArviZ."""
    import numpy as np
    import xarray

    from hyperleaf.inference.diagnostics import sample_stats, to_xarray_groups
    from hyperleaf.surrogates.gp import GPPosterior

    name = _output(study, output)
    learned = study.models[name]
    posterior = learned.posterior
    if not isinstance(posterior, GPPosterior):
        raise InputError(
            f"the posterior of {type(posterior.surrogate).__name__} has no parameters of fixed names, so it cannot be written as "
            "NetCDF. Export the surrogate instead: surrogate.npz"
        )
    chains = posterior.diagnostics.extra.get("chains")
    stats: dict[str, Any] = {}
    if chains is not None:
        z, stats = chains.z, sample_stats(chains)
    else:
        z = np.asarray(posterior.z)[_equally_weighted(posterior.weights)][None]
    attrs = {
        "study": study.name,
        "output": name,
        "method": posterior.diagnostics.method,
        "domain": json.dumps(study.domain.to_dict()),
        "output_loc": learned.scale.loc,
        "output_scale": learned.scale.scale,
        "units": "inputs in the unit cube; outputs as (y - output_loc) / output_scale",
    }
    data = posterior.data
    groups = to_xarray_groups(
        z, posterior.surrogate.prior, stats=stats, observed={"y": data.y}, constant={"x": data.x}, attrs=attrs
    )
    tree = xarray.DataTree.from_dict(groups)
    with replace_file(path) as unfinished:
        if not _installed("h5netcdf"):
            raise InputError("NetCDF needs h5netcdf, which is not installed. Run: pip install 'hyperleaf[export]'")
        tree.to_netcdf(unfinished, engine="h5netcdf")
    return {"what": f"the posterior of {name}, {z.shape[0] * z.shape[1]} draws", "output": name, "groups": sorted(groups)}


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


def check_folder(path: Path) -> None:
    """Refuse a path to which no file can be written."""
    if path.is_dir():
        raise InputError(f"a file is written here; {path} is a folder.")
    if path.exists() and not path.is_file():
        raise InputError(f"a file is written here; {path} is a pipe or a device. Name a file.")
    if not path.parent.is_dir():
        raise InputError(f"a file is written into a folder that exists; {path.parent} does not. Make it first.")


def _output(study: Study, name: str | None) -> str:
    if name is None and len(study.outputs) > 1:
        raise InputError(f"the study has several outputs; say which with --output, one of {list(study.outputs)}.")
    if name is not None and name not in study.outputs:
        raise InputError(f"--output must be one of {list(study.outputs)}; got {name!r}.")
    return name or study.outputs[0]


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a module that something has put aside
        return False


def _equally_weighted(weights: Any) -> Any:
    """Indices in which each draw stands as often as its weight says: systematic resampling, without chance."""
    import numpy as np

    num = len(weights)
    if np.allclose(weights, 1.0 / num, rtol=1e-9):
        return np.arange(num)
    places = (np.arange(num) + 0.5) / num
    return np.minimum(np.searchsorted(np.cumsum(weights), places), num - 1)
