"""R's tgp through Rscript: a treed Gaussian process with the defaults of `btgp`.

tgp predicts while it samples and keeps no model, so every prediction runs its chain anew, from the same seed. What it states is
the variance of an observation; the noise within is not told apart, and counts as doubt about f.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hyperleaf.bench.rivals.base import Fitted, Moments, Values
from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError

SCRIPT = Path(__file__).with_suffix(".R")


def fit(kind: str, data: Dataset, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    return {"seed": np.array(seed)}


def restore(kind: str, data: Dataset, options: Mapping[str, Any], arrays: Mapping[str, Any]) -> Fitted:
    return _Fitted(data, options, int(arrays["seed"]))


class _Fitted(Fitted):
    def __init__(self, data: Dataset, options: Mapping[str, Any], seed: int) -> None:
        self._data, self._options, self._seed = data, options, seed
        self._last: tuple[bytes, tuple[Values, Values]] | None = None  # a campaign asks for the same points twice

    def moments(self, x: Values) -> Moments:
        mean, variances = self._run(x, full=False)
        return Moments(mean[None], variances[None], np.zeros(1))

    def covariance(self, x: Values) -> tuple[Values, Values, Values]:
        mean, covariance = self._run(x, full=True)
        return mean[None], covariance[None], np.zeros(1)

    def _run(self, x: Values, full: bool) -> tuple[Values, Values]:
        digest = x.tobytes() + bytes([full])
        if self._last is not None and self._last[0] == digest:
            return self._last[1]
        with TemporaryDirectory() as folder:
            for name, values in (("x", self._data.x), ("y", self._data.y), ("points", x)):
                np.savetxt(Path(folder) / f"{name}.csv", values, delimiter=",", fmt="%.17g")
            numbers = (self._seed, self._options["burn_in"], self._options["total"], self._options["thin"], int(full))
            command = ["Rscript", "--vanilla", str(SCRIPT), folder, *map(str, numbers)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise InferenceError(
                    f"tgp must fit {len(self._data.y)} observations; Rscript ended with {done.returncode}: "
                    f"{done.stderr.strip()[-400:]} Install it in R with install.packages('tgp'), or leave this rival out."
                )
            mean, spread = (np.loadtxt(Path(folder) / f"{name}.csv", delimiter=",", ndmin=1) for name in ("mean", "covariance"))
        found = mean, spread.reshape(len(x), -1) if full else spread.reshape(-1)
        self._last = (digest, found)
        return found
