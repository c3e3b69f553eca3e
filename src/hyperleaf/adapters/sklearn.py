"""The Hierarchical-Hyperplane Kernel as a kernel of scikit-learn, with its gradient in closed form.

scikit-learn optimises the logarithm of parameters. Offsets and normals of gates have either sign, so they stand in `theta` and
`bounds` as they are; lengthscales, steepnesses and variances as their logarithms. All else is as its other kernels have it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from hyperleaf.adapters.parts import CENTER, FIELDS, REAL, Parts, Values, paths
from hyperleaf.errors import InputError
from hyperleaf.kernels import Kernel as HyperleafKernel

Bounds = Any  # (low, high), one pair for each number, or "fixed"


class HHK(Kernel):
    """k(x, y) = Σⱼ λⱼ(x) λⱼ(y) kⱼ(x, y) + constant + linear · (x − ½)ᵀ(y − ½).

    l leaves and g = l − 1 gates as nested sequences; `leaf` is "rbf", "matern12", "matern32" or "matern52"; `tree` is nested
    pairs. Made most easily by `from_hyperleaf`. `constant` and `linear` are a trend integrated out, and are not learned.
    """

    def __init__(
        self,
        lengthscale: Any = ((1.0,),),
        normal: Any = (),
        offset: Any = (),
        steepness: Any = (),
        variance: Any = (1.0,),
        tree: Any = 0,
        leaf: str = "rbf",
        weights: str = "product",
        constant: float = 0.0,
        linear: float = 0.0,
        lengthscale_bounds: Bounds = (1e-3, 1e3),
        normal_bounds: Bounds = (-10.0, 10.0),
        offset_bounds: Bounds = (-10.0, 10.0),
        steepness_bounds: Bounds = (1e-2, 1e4),
        variance_bounds: Bounds = (1e-4, 1e4),
    ) -> None:
        self.lengthscale, self.normal, self.offset = lengthscale, normal, offset
        self.steepness, self.variance = steepness, variance
        self.tree, self.leaf, self.weights = tree, leaf, weights
        self.constant, self.linear = constant, linear
        self.lengthscale_bounds, self.normal_bounds, self.offset_bounds = lengthscale_bounds, normal_bounds, offset_bounds
        self.steepness_bounds, self.variance_bounds = steepness_bounds, variance_bounds

    @classmethod
    def from_hyperleaf(cls, source: Any, *, seed: int = 0, **bounds: Bounds) -> HHK:
        """From a kernel or a draw of a posterior; of a prior, a draw of it. `bounds` as the constructor takes them."""
        parts = Parts.of(source, seed)
        if parts.variance.ndim != 1:
            raise InputError("scikit-learn's kernels are single; got a list of them. Pass one draw: posterior.draw().")
        numbers = {name: _nested(getattr(parts, name)) for name in FIELDS}
        fixed = {"tree": parts.tree, "leaf": parts.leaf, "weights": parts.weights}
        return cls(**numbers, **fixed, constant=parts.constant, linear=parts.linear, **bounds)

    def to_hyperleaf(self) -> HyperleafKernel:
        """The same kernel in hyperleaf, trend included."""
        return self._parts().kernel()

    # --- parameters as scikit-learn sees them

    @property
    def hyperparameter_lengthscale(self) -> Hyperparameter:
        return self._hyperparameter("lengthscale")

    @property
    def hyperparameter_normal(self) -> Hyperparameter:
        return self._hyperparameter("normal")

    @property
    def hyperparameter_offset(self) -> Hyperparameter:
        return self._hyperparameter("offset")

    @property
    def hyperparameter_steepness(self) -> Hyperparameter:
        return self._hyperparameter("steepness")

    @property
    def hyperparameter_variance(self) -> Hyperparameter:
        return self._hyperparameter("variance")

    def _hyperparameter(self, name: str) -> Hyperparameter:
        return Hyperparameter(name, "numeric", getattr(self, f"{name}_bounds"), np.size(getattr(self, name)))

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """Those that there are; a single leaf has no gates."""
        found = [self._hyperparameter(name) for name in FIELDS]
        return [one for one in found if one.n_elements]

    @property
    def theta(self) -> Values:
        """What is not fixed, flat: the logarithms of positive parameters, offsets and normals as they are."""
        return np.concatenate([np.zeros(0), *(_coded(one.name, np.ravel(getattr(self, one.name))) for one in self._free())])

    @theta.setter
    def theta(self, theta: Any) -> None:
        values, begun, params = np.asarray(theta, dtype=np.float64), 0, {}
        free = self._free()
        total = sum(one.n_elements for one in free)
        if values.shape != (total,):
            raise ValueError(f"theta has {total} entries, one for each number that is not fixed; got shape {values.shape}.")
        for one in free:
            part = values[begun : begun + one.n_elements]
            natural = part if one.name in REAL else np.exp(part)
            params[one.name] = _nested(natural.reshape(np.shape(getattr(self, one.name))))
            begun += one.n_elements
        self.set_params(**params)

    @property
    def bounds(self) -> Values:
        """Of `theta`, (p, 2)."""
        rows = [np.broadcast_to(_coded(one.name, np.atleast_2d(one.bounds)), (one.n_elements, 2)) for one in self._free()]
        return np.concatenate([np.zeros((0, 2)), *rows])

    def _free(self) -> list[Hyperparameter]:
        return [one for one in self.hyperparameters if not one.fixed]

    # --- the kernel

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The Gram matrix (n, m), and with `eval_gradient` its derivative in theta (n, n, p)."""
        if eval_gradient and Y is not None:
            raise ValueError("Gradient can only be evaluated when Y is None.")
        parts = self._parts()
        x = _points(X, parts)
        y = x if Y is None else _points(Y, parts)
        z, weights = _weights(parts, x)
        others = weights if Y is None else _weights(parts, y)[1]
        terms, slopes = [], []
        for j in range(len(parts.variance)):
            squares = ((x[:, None, :] - y[None, :, :]) / parts.lengthscale[j]) ** 2
            profile, slope = _profile(parts.leaf, squares.sum(axis=2))
            scale = parts.variance[j] * np.outer(weights[j], others[j])
            terms.append(scale * profile)
            if eval_gradient:
                by_inputs = -2.0 * (scale * slope)[:, :, None] * squares
                isotropic = parts.lengthscale.shape[1] == 1
                slopes.append(by_inputs.sum(axis=2, keepdims=True) if isotropic else by_inputs)
        gram = np.sum(terms, axis=0) + parts.constant + parts.linear * (x - CENTER) @ (y - CENTER).T
        if not eval_gradient:
            return gram
        return gram, self._gradient(parts, x, z, np.array(terms), slopes)

    def _gradient(self, parts: Parts, x: Values, z: Values, terms: Values, slopes: list[Values]) -> Values:
        """∂K/∂theta: each gate moves the weights of both points, and so enters once by rows and once by columns."""
        left, right = paths(parts.tree)
        power = 0.5 if parts.weights == "sqrt" else 1.0
        by_logit = power * (left[:, None, :] * expit(-z) - right[:, None, :] * expit(z))  # ∂ log wⱼ(x)/∂zᵢ, (l, n, g)
        rows = np.einsum("jnm,jni->nmi", terms, by_logit)
        n, g = len(x), len(parts.offset)

        def of_gates(by_parameter: Values) -> Values:  # (n, g, …), the derivative of zᵢ at each point
            one_side = rows.reshape(n, n, g, *[1] * (by_parameter.ndim - 2)) * by_parameter[:, None]
            return (one_side + np.swapaxes(one_side, 0, 1)).reshape(n, n, -1)

        parameters = {
            "lengthscale": lambda: np.concatenate(slopes, axis=2),
            "normal": lambda: of_gates(parts.steepness[:, None] * x[:, None, :]),
            "offset": lambda: of_gates(np.broadcast_to(parts.steepness, z.shape)),
            "steepness": lambda: of_gates(z),
            "variance": lambda: np.moveaxis(terms, 0, 2),
        }
        return np.concatenate([np.zeros((n, n, 0)), *(parameters[one.name]() for one in self._free())], axis=2)

    def diag(self, X: Any) -> Values:
        """k(x, x) at each row."""
        parts = self._parts()
        x = _points(X, parts)
        trend = parts.constant + parts.linear * np.sum((x - CENTER) ** 2, axis=1)
        return parts.variance @ _weights(parts, x)[1] ** 2 + trend

    def is_stationary(self) -> bool:
        return not (len(np.ravel(self.offset)) or self.linear)

    def __repr__(self) -> str:
        variance = np.round(np.ravel(self.variance), 3).tolist()
        return f"HHK({len(variance)} leaves of {self.leaf!r}, {np.size(self.offset)} gates, variance={variance})"

    def _parts(self) -> Parts:
        variance, lengthscale = np.asarray(self.variance, float), np.asarray(self.lengthscale, float)
        normal = np.asarray(self.normal, float)
        if normal.size == 0:
            normal = np.zeros((0, lengthscale.shape[-1] if lengthscale.ndim else 1))
        offset, steepness = np.asarray(self.offset, float), np.asarray(self.steepness, float)
        fixed: tuple[Any, ...] = (self.tree, self.leaf, self.weights, self.constant, self.linear)
        return Parts(lengthscale, normal, offset, steepness, variance, *fixed)


def _weights(parts: Parts, x: Values) -> tuple[Values, Values]:
    """The logits of the gates (n, g), and what each leaf counts at each point (l, n)."""
    left, right = paths(parts.tree)
    z = parts.steepness * (parts.offset + x @ parts.normal.T) if len(parts.offset) else np.zeros((len(x), 0))
    logs = left @ log_expit(z).T + right @ log_expit(-z).T
    return z, np.exp(0.5 * logs if parts.weights == "sqrt" else logs)


def _profile(leaf: str, squared: Values) -> tuple[Values, Values]:
    """φ(r²) and its derivative in r²; at r = 0 that of the Matérn-1/2 stands for what it is multiplied by, which is 0."""
    if leaf == "rbf":
        profile = np.exp(-0.5 * squared)
        return profile, -0.5 * profile
    s = np.sqrt(np.maximum({"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[leaf] * squared, 1e-300))
    decay = np.exp(-s)
    if leaf == "matern12":
        return decay, -0.5 * decay / s
    if leaf == "matern32":
        return (1.0 + s) * decay, -1.5 * decay
    return (1.0 + s + s * s / 3.0) * decay, -5.0 / 6.0 * (1.0 + s) * decay


def _points(points: Any, parts: Parts) -> Values:
    x = np.atleast_2d(np.asarray(points, dtype=np.float64))
    d = max(parts.lengthscale.shape[1], parts.normal.shape[1])
    if x.ndim != 2 or ((d > 1 or len(parts.offset)) and x.shape[1] != d):
        raise InputError(f"X must have shape (n, {d}), one column for each input of the kernel; got {x.shape}. Reshape it.")
    return x


def _coded(name: str, values: NDArray[Any]) -> Values:
    return np.asarray(values, dtype=np.float64) if name in REAL else np.log(np.asarray(values, dtype=np.float64))


def _nested(values: Values) -> Any:
    """Nested tuples: they compare and copy like the numbers of scikit-learn's own kernels, which arrays do not."""
    return tuple(_nested(one) for one in values) if values.ndim else float(values)
