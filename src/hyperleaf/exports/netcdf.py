"""The posterior of one output as NetCDF: ArviZ's groups in one file."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.io import replacing


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    """Draws with unequal weights are resampled, so that each counts the same in ArviZ."""
    import numpy as np
    import xarray

    from hyperleaf.exports.certificate import certified
    from hyperleaf.inference.diagnostics import sample_stats, to_xarray_groups
    from hyperleaf.surrogates.gp import GPPosterior

    wishes.must_be_plain("a .nc file holds the draws of the parameters and no predictions")
    name, model = source.one(wishes)
    learned, domain = model.learned, model.domain
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
        z = np.asarray(posterior.z)[equally_weighted(posterior.weights)][None]
    attrs = {
        "study": str(getattr(source.held, "name", "")),
        "output": name,
        "method": posterior.diagnostics.method,
        "domain": json.dumps(domain.to_dict()),
        "output_loc": learned.scale.loc,
        "output_scale": learned.scale.scale,
        "certificate": json.dumps(certified({name: model}, source.accuracy, [None], [None], wishes)),
        "units": "inputs in the unit cube; outputs as (y - output_loc) / output_scale",
    }
    data = posterior.data
    groups = to_xarray_groups(
        z, posterior.surrogate.prior, stats=stats, observed={"y": data.y}, constant={"x": data.x}, attrs=attrs
    )
    tree = xarray.DataTree.from_dict(groups)
    with replacing(path) as unfinished:
        if not _installed("h5netcdf"):
            raise InputError("NetCDF needs h5netcdf, which is not installed. Run: pip install 'hyperleaf[export]'")
        tree.to_netcdf(unfinished, engine="h5netcdf")
    return {"what": f"the posterior of {name}, {z.shape[0] * z.shape[1]} draws", "output": name, "groups": sorted(groups)}


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a module that something has put aside
        return False


def equally_weighted(weights: Any) -> Any:
    """Indices in which each draw stands as often as its weight says: systematic resampling, without chance."""
    import numpy as np

    num = len(weights)
    if np.allclose(weights, 1.0 / num, rtol=1e-9):
        return np.arange(num)
    places = (np.arange(num) + 0.5) / num
    return np.minimum(np.searchsorted(np.cumsum(weights), places), num - 1)


FORMAT = Format((".nc",), "the posterior, for ArviZ", write)
