"""The Hierarchical-Hyperplane Kernel in GPyTorch: batched, trainable, with the paper's priors and the constraints they need.

The formula is written in torch, so that its gradients are torch's own; distances are taken by differences, exact at coincident
points. Nothing but the parameters depends on the batch, so a posterior's draws are one kernel of batch shape (s,).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpyro.distributions as dist

from hyperleaf.adapters import missing
from hyperleaf.adapters.parts import CENTER, FIELDS, REAL, Parts, covariance_of, distributions_in, paths
from hyperleaf.errors import InputError
from hyperleaf.gp import GP
from hyperleaf.kernels import Kernel
from hyperleaf.priors import hhk_prior

try:
    import gpytorch
    import torch
    from gpytorch.constraints import Positive
    from gpytorch.priors import GammaPrior, LogNormalPrior, NormalPrior, Prior
    from torch import Tensor
    from torch.nn.functional import logsigmoid
except ModuleNotFoundError as error:
    raise missing("gpytorch", "gpytorch") from error


class HHK(gpytorch.kernels.Kernel):
    """k(x, y) = Σⱼ λⱼ(x) λⱼ(y) kⱼ(x, y) + constant + linear · (x − ½)ᵀ(y − ½), for inputs in the unit cube.

    A new one is a draw of its prior (`torch.manual_seed` decides which), the paper's unless `prior` is a kernel of hyperleaf with
    distributions in its fields, such as `hhk_prior(d, 8, **wide_priors(d))`. `constant` and `linear` are a trend integrated out.
    """

    has_lengthscale = False  # of the base class, which knows one lengthscale per input; leaves have one each

    def __init__(
        self,
        d: int,
        leaves: int = 8,
        *,
        prior: Kernel | None = None,
        batch_shape: Any = (),
        active_dims: Any = None,
        **options: Any,
    ) -> None:
        prior = hhk_prior(d, leaves, **options) if prior is None else prior
        count, seed = int(np.prod(batch_shape)), int(torch.randint(2**31, ()))
        draws = [Parts.of(prior, seed + i) for i in range(count)] if batch_shape else [Parts.of(prior, seed)]
        arrays = {name: np.stack([getattr(one, name) for one in draws]) for name in FIELDS}
        shaped = {name: value.reshape(*batch_shape, *value.shape[1:]) for name, value in arrays.items()}
        self._begin(draws[0], shaped, batch_shape, active_dims, torch.get_default_dtype())
        self._register(prior)

    @classmethod
    def from_hyperleaf(cls, source: Any, *, active_dims: Any = None, dtype: torch.dtype = torch.float64, seed: int = 0) -> HHK:
        """From a kernel or a draw, or from a list of them: a batch. Distributions in a kernel's fields become priors."""
        parts, self = Parts.of(source, seed), cls.__new__(cls)
        arrays = {name: getattr(parts, name) for name in FIELDS}
        self._begin(parts, arrays, parts.variance.shape[:-1], active_dims, dtype)
        if not isinstance(source, list | tuple):
            self._register(source)
        return self

    def to_hyperleaf(self) -> Any:
        """The same kernel in hyperleaf, trend included; of a batch, a list of them."""
        arrays = {name: getattr(self, name).detach().cpu().double().numpy() for name in FIELDS}
        batch = arrays["variance"].shape[:-1]
        count = int(np.prod(batch))
        flat = {name: value.reshape(count, *value.shape[len(batch) :]) for name, value in arrays.items()}
        rows = [{name: value[i] for name, value in flat.items()} for i in range(count)]
        kernels = [Parts(**row, **self._fixed).kernel() for row in rows]
        return kernels if batch else kernels[0]

    def _begin(self, parts: Parts, arrays: dict[str, Any], batch_shape: Any, active_dims: Any, dtype: torch.dtype) -> None:
        super().__init__(batch_shape=torch.Size(batch_shape), active_dims=active_dims)
        # Not tensors of the module: GPyTorch indexes those by the batch.
        self._fixed = {name: getattr(parts, name) for name in ("tree", "leaf", "weights", "constant", "linear")}
        self._paths = paths(parts.tree)
        for name in FIELDS:
            value = torch.tensor(np.array(arrays[name]), dtype=dtype)  # a copy: torch has no tensors that must not change
            self.register_parameter(_raw(name), torch.nn.Parameter(value.clone()))
            if name not in REAL:
                self.register_constraint(_raw(name), Positive())
                _write(name, self, value)

    def _register(self, prior: Any) -> None:
        """Priors of GPyTorch for the fields that hold distributions. GPyTorch's densities are of the constrained parameters."""
        kernel = prior.kernel if isinstance(prior, GP) else covariance_of(prior)
        for name, distribution in distributions_in(kernel).items():
            self.register_prior(f"{name}_prior", _translated(name, distribution), partial(_read, name), partial(_write, name))

    # --- parameters, constrained

    @property
    def lengthscale(self) -> Tensor:
        return _read("lengthscale", self)

    @lengthscale.setter
    def lengthscale(self, value: Any) -> None:
        _write("lengthscale", self, value)

    @property
    def steepness(self) -> Tensor:
        return _read("steepness", self)

    @steepness.setter
    def steepness(self, value: Any) -> None:
        _write("steepness", self, value)

    @property
    def variance(self) -> Tensor:
        return _read("variance", self)

    @variance.setter
    def variance(self, value: Any) -> None:
        _write("variance", self, value)

    @property
    def is_stationary(self) -> bool:
        return self.offset.shape[-1] == 0 and not self._fixed["linear"]

    # --- the kernel

    def log_leaf_weights(self, x: Tensor) -> Tensor:
        """log λⱼ(x) (…, l, n)."""
        left, right = (torch.as_tensor(path, dtype=x.dtype, device=x.device) for path in self._paths)
        z = self.steepness.unsqueeze(-2) * (self.offset.unsqueeze(-2) + x @ self.normal.transpose(-1, -2))
        return (logsigmoid(z) @ left.T + logsigmoid(-z) @ right.T).transpose(-1, -2)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False, **params: Any) -> Tensor:
        """k between the rows of x1 (…, n, d) and x2 (…, m, d): (…, n, m), or (…, n) with `diag`."""
        if last_dim_is_batch:
            raise RuntimeError("a partition divides all inputs at once; last_dim_is_batch must be False.")
        power = 0.5 if self._fixed["weights"] == "sqrt" else 1.0
        w1, w2 = (torch.exp(power * self.log_leaf_weights(x)) for x in (x1, x2))
        scale = self.lengthscale.unsqueeze(-2)
        a, b = x1.unsqueeze(-3) / scale, x2.unsqueeze(-3) / scale
        profile = _PROFILES[self._fixed["leaf"]]
        c1, c2 = x1 - CENTER, x2 - CENTER
        if diag:
            kernels = profile(((a - b) ** 2).sum(-1))
            trend = self._fixed["constant"] + self._fixed["linear"] * (c1 * c2).sum(-1)
            return (self.variance.unsqueeze(-1) * w1 * w2 * kernels).sum(-2) + trend
        squared = sum((a[..., :, None, k] - b[..., None, :, k]) ** 2 for k in range(a.shape[-1]))
        weights = (self.variance.unsqueeze(-1) * w1).unsqueeze(-1) * w2.unsqueeze(-2)
        trend = self._fixed["constant"] + self._fixed["linear"] * c1 @ c2.transpose(-1, -2)
        return (weights * profile(squared)).sum(-3) + trend


def _raw(name: str) -> str:
    return name if name in REAL else f"raw_{name}"


def _read(name: str, module: Any) -> Tensor:
    raw = getattr(module, _raw(name))
    return raw if name in REAL else getattr(module, f"raw_{name}_constraint").transform(raw)


def _write(name: str, module: Any, value: Any) -> None:
    raw = getattr(module, _raw(name))
    values = torch.as_tensor(value, dtype=raw.dtype, device=raw.device).expand_as(raw)
    constrained = values if name in REAL else getattr(module, f"raw_{name}_constraint").inverse_transform(values)
    module.initialize(**{_raw(name): constrained})


def _translated(name: str, prior: dist.Distribution) -> Prior:
    numbers = {key: float(np.asarray(value)) for key, value in vars(prior).items() if key in prior.arg_constraints}
    if isinstance(prior, dist.Exponential):
        return GammaPrior(1.0, numbers["rate"])
    if isinstance(prior, dist.Gamma):
        return GammaPrior(numbers["concentration"], numbers["rate"])
    if isinstance(prior, dist.LogNormal):
        return LogNormalPrior(numbers["loc"], numbers["scale"])
    if isinstance(prior, dist.Normal):
        return NormalPrior(numbers["loc"], numbers["scale"])
    raise InputError(
        f"the prior of {name} must be Gamma, LogNormal, Exponential or Normal to be GPyTorch's as well; got "
        f"{type(prior).__name__}. Use one of them, or register it on the kernel by hand."
    )


def _root(squared: Tensor) -> Tensor:
    """√ with gradient 0 at 0 in place of infinity."""
    return torch.sqrt(squared.clamp_min(torch.finfo(squared.dtype).tiny))


def _matern12(squared: Tensor) -> Tensor:
    return torch.exp(-_root(squared))


def _matern32(squared: Tensor) -> Tensor:
    s = _root(3.0 * squared)
    return (1.0 + s) * torch.exp(-s)


def _matern52(squared: Tensor) -> Tensor:
    s = _root(5.0 * squared)
    return (1.0 + s + s * s / 3.0) * torch.exp(-s)


_PROFILES: dict[str, Callable[[Tensor], Tensor]] = {
    "rbf": lambda squared: torch.exp(-0.5 * squared),
    "matern12": _matern12,
    "matern32": _matern32,
    "matern52": _matern52,
}
