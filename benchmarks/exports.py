"""Exports: seconds a point and bytes, at n = 65 and 200 with 128 draws, whole and thinned, C and ONNX against `predict`.

Draws are a cloud about one draw of the prior, as those of a posterior are; 8 leaves in 2 dimensions with a trend.
Usage: python -m benchmarks.exports [--sizes 65 200] [--points 200] [--tolerance 0.01]
"""

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.domain import Domain, Real
from hyperleaf.exports import Source, Wishes, export
from hyperleaf.gp import pad
from hyperleaf.parallel import over_draws
from hyperleaf.study.files import Model
from hyperleaf.surrogates.base import Diagnostics
from hyperleaf.surrogates.gp import GPPosterior, hhk_surrogate
from hyperleaf.surrogates.gp.draws import draw_condition
from hyperleaf.surrogates.learned import Learned

DOMAIN = Domain(a=Real(0, 1), b=Real(0, 1))


def model_of(n: int, draws: int, spread: float = 0.1) -> Model:
    """A model of a ridge with a jump, with draws spread about one of the prior."""
    rng = np.random.default_rng(0)
    surrogate = hhk_surrogate(2, 8, mean="linear", noise="none")
    x = DOMAIN.to_unit(DOMAIN.design(n, "sobol", 0))
    y = np.sin(6 * x[:, 0]) + (x[:, 1] > 0.5) * np.cos(3 * x[:, 0])
    scale = Standardizer.from_data(y)
    data = Dataset(x, scale.transform(y))
    with jax.enable_x64(True):
        centre = surrogate.prior.sample_vectors(jax.random.key(1), 1)
        z = centre + spread * jax.numpy.asarray(rng.standard_normal((draws, centre.shape[1])))
        padded = pad(data)
        seen = over_draws(draw_condition, z, surrogate.prior, padded)
        log_weights = jax.numpy.zeros(draws)
    posterior = GPPosterior(surrogate, data, padded, z, log_weights, seen, Diagnostics("given", draws, 0.0))
    return Model(Learned(posterior, scale, y), DOMAIN, "y")


def seconds(call, points: int) -> float:
    call()
    best = np.inf
    for _ in range(3):
        started = time.process_time()
        call()
        best = min(best, time.process_time() - started)
    return best / points


def c_code(path: Path, rows: np.ndarray):
    library = path.with_suffix(".so")
    subprocess.run(["cc", "-std=c99", "-O2", "-shared", "-fPIC", str(path), "-lm", "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    started = time.process_time()
    assert getattr(loaded, f"{path.stem}_init")() == 0
    begun = time.process_time() - started
    pointers = [row.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for row in rows]
    mean, std = (ctypes.c_double * 1)(), (ctypes.c_double * 1)()

    def call() -> None:
        for pointer in pointers:
            getattr(loaded, f"{path.stem}_predict")(pointer, mean, std, None)

    return call, begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[65, 200])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--draws", type=int, default=128)
    parser.add_argument("--tolerance", type=float, default=0.01)
    options = parser.parse_args()
    import onnxruntime

    rng = np.random.default_rng(1)
    rows = rng.random((options.points, 2))
    for n in options.sizes:
        model = model_of(n, options.draws)
        spent = seconds(lambda model=model: model.learned.posterior.predict(rng.random((options.points, 2))), options.points)
        print(f"n = {n}, predict: {1e6 * spent:.0f} µs a point", flush=True)
        for tolerance in (None, options.tolerance):
            stated = Source(model).ingredients(Wishes.of(tolerance=tolerance)).certificate["outputs"][0]
            what = f"n = {n}, {stated['settings']['draws']} draws" + ("" if tolerance is None else f" ({stated['thinned']})")
            with tempfile.TemporaryDirectory() as folder:
                path = export(model, Path(folder) / "surrogate.c", tolerance=tolerance)
                call, begun = c_code(path, rows)
                spent = seconds(call, options.points)
                print(
                    f"{what}: C {1e6 * spent:.0f} µs a point, {path.stat().st_size / 1e6:.2f} MB, init {begun:.3f} s", flush=True
                )
                path = export(model, Path(folder) / "surrogate.onnx", tolerance=tolerance)
                session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
                spent = seconds(lambda session=session: session.run(None, {"x": rows}), options.points)
                print(f"{what}: ONNX {1e6 * spent:.0f} µs a point, {path.stat().st_size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
