"""Surrogates by name, with options of plain values: what config files, the command line and benchmarks say.

`make_surrogate("hhk", 2, leaves=8, effort="thorough")`, or with `inference={"kind": "smc", "particles": 256}`. An option that a
kind does not have, or a value it cannot take, is an error that names the nearest one there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import numpyro.distributions as dist

from hyperleaf import kernels
from hyperleaf.checks import one_of
from hyperleaf.errors import InputError
from hyperleaf.inference import METHODS, method
from hyperleaf.inference.base import Inference
from hyperleaf.inference.smc import EFFORTS
from hyperleaf.kernels import Kernel, Periodic, RationalQuadratic, Stationary
from hyperleaf.precision import float64
from hyperleaf.priors import check_count, stationary_prior, wide_priors
from hyperleaf.surrogates.base import Surrogate
from hyperleaf.surrogates.ensemble import Averaged, AveragedPosterior, Growth, Step
from hyperleaf.surrogates.gp import Agreement, GPPosterior, GPSurrogate, hhk_surrogate, noise_by_leaf, surrogate, warped_surrogate
from hyperleaf.surrogates.kinds import BY_LEAF, EFFORT, LEARNED, MEANS, NOISES, PRIORS, kind_of

MOST_LEAVES = 64
KERNELS: dict[str, type[Kernel]] = {  # by the names in study.toml
    one.tag.replace("-", "_"): one
    for one in vars(kernels).values()
    if isinstance(one, type) and issubclass(one, Stationary | Periodic) and "tag" in vars(one)
}
SAVED = {
    "gp-surrogate": GPSurrogate,
    "gp-posterior": GPPosterior,
    "smc-agreement": Agreement,
    "averaged": Averaged,
    "averaged-posterior": AveragedPosterior,
    "growth": Growth,
    "growth-step": Step,
}


def make_surrogate(kind: str, inputs: int | Sequence[int], /, *, noise: str = "learned", **options: Any) -> Surrogate:
    """The surrogate of that kind over the unit cube; `inputs` is its dimension, or the widths of all axes, `Domain.widths`.

    `noise` is "learned", "per leaf" where each leaf has its own, "auto" where evidence weighs these two, "known" if the data
    bring their variances, or "none" if outputs repeat exactly. "robust" is learned too: setting wild values aside is not the
    surrogate's business but that of `Robust`, which holds it.
    """
    one_of("noise", noise, NOISES)
    entry = kind_of(kind)
    entry.check_noise(noise)
    entry.check_options(options)
    try:
        widths = (1,) * check_count("num_dims", inputs) if isinstance(inputs, int | np.integer) else tuple(inputs)
        return entry.builder()(widths if entry.widths else sum(widths), "learned" if noise in LEARNED else noise, **options)
    except TypeError as error:
        raise InputError(f"an option of the surrogate {kind!r} has a value of a wrong type ({error}): {options!r}.") from error


def make_inference(value: Any, effort: str = EFFORT) -> Inference:
    """From a name, a mapping of "kind" and its settings, or as it is. The plain name "smc" has the settings of the effort."""
    one_of("effort", effort, tuple(EFFORTS))
    if isinstance(value, str) and value == "smc":
        return EFFORTS[effort]
    if effort != EFFORT:
        raise InputError(
            f'effort sets how hard inference = "smc" works; got effort = {effort!r} with inference = {value!r}. '
            'Leave out effort, or write inference = "smc" without settings of its own.'
        )
    if isinstance(value, Inference):
        return value
    if not isinstance(value, str | Mapping):
        raise InputError(f"inference must be one of {list(METHODS)} or a config such as SMC(particles=256); got {value!r}.")
    settings = dict(value) if isinstance(value, Mapping) else {"kind": value}
    if "kind" not in settings:
        raise InputError(
            f"inference as a table must have a kind, one of {list(METHODS)}; got {settings!r}. "
            'Write it like { kind = "smc", particles = 256 }.'
        )
    make = method(one_of("inference", settings.pop("kind"), tuple(METHODS)))
    known = tuple(field.name for field in fields(make()))
    for name in settings:
        one_of("a setting of inference", name, known)
    return make(**settings)


@float64
def kernel_prior(kernel: Any, d: int, priors: str = "wide", num_axes: int | None = None) -> Kernel:
    """The prior over stationary kernels that a name, a class or an object stands for, of d columns that are `num_axes` inputs."""
    one_of("priors", priors, PRIORS)
    own: dict[str, Any] = {"lengthscale": wide_priors(num_axes or d)["lengthscale"]} if priors == "wide" else {}
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        kernel = KERNELS[one_of("kernel", kernel, tuple(KERNELS))]
    if not isinstance(kernel, type) or not issubclass(kernel, Stationary | Periodic):
        raise InputError(f"kernel must be one of {list(KERNELS)}, a stationary kernel class or a kernel object; got {kernel!r}.")
    if issubclass(kernel, Periodic):
        # A period between a tenth of the box and all of it, with 95 % probability.
        base = stationary_prior(d, **own)
        return kernel(base.lengthscale, base.variance, dist.LogNormal(np.log(0.32), 0.6).expand((d,)))
    prior = stationary_prior(d, kernel, **own)
    if isinstance(prior, RationalQuadratic):
        return RationalQuadratic(prior.lengthscale, prior.variance, dist.Gamma(2.0, 1.0))
    return prior


def _check_leaves(leaves: Any) -> int:
    """More would take memory without end, and no data tell so many apart."""
    if check_count("leaves", leaves) > MOST_LEAVES:
        raise InputError(f"leaves must be at most {MOST_LEAVES}; got {leaves}. 8 is a good number to begin with.")
    return int(leaves)


def hhk(
    widths: Sequence[int],
    noise: str,
    leaves: int = 8,
    inference: Any = "smc",
    effort: str = EFFORT,
    mean: str = "linear",
    weights: str = "product",
    priors: str = "wide",
    noise_rate: float | None = None,
    choose_leaves: Sequence[int] | None = None,
    combine: str = "average",
) -> Surrogate:
    one_of("weights", weights, ("product", "sqrt"))
    d = sum(widths)
    settings: dict[str, Any] = {**_gp(inference, effort, mean, noise_rate, noise), "weights": weights}
    if one_of("priors", priors, PRIORS) == "wide":
        settings |= wide_priors(len(widths))  # a choice is one input, however many options it has

    def of(size: int, own: bool) -> GPSurrogate:
        return hhk_surrogate(d, size, **settings | ({"noise": noise_by_leaf(size, noise_rate)} if own else {}))

    if noise == "auto" and not settings["inference"].gives_evidence:
        raise InputError(
            f'noise = "auto" weighs by evidence whether leaves differ, which needs inference = "smc"; got {inference!r}. '
            'Set noise = "learned" or "per leaf".'
        )
    if choose_leaves is None and noise != "auto":
        return of(_check_leaves(leaves), noise in BY_LEAF)
    if not settings["inference"].gives_evidence:
        raise InputError(f'choose_leaves weighs trees by evidence, which needs inference = "smc"; got {inference!r}.')
    if choose_leaves is None:
        choose_leaves = [leaves]
    numbers = list(choose_leaves) if isinstance(choose_leaves, Sequence | np.ndarray) else []
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"choose_leaves must be different numbers of leaves, as [1, 2, 4, 8]; got {choose_leaves!r}.")
    if isinstance(inference, str):
        settings["inference"] = settings["inference"].for_evidence()
    sizes = [_check_leaves(size) for size in numbers]
    one_of("combine", combine, ("average", "best"))
    if noise in BY_LEAF and max(sizes) < 2:
        noise_by_leaf(max(sizes))  # says what is wrong
    own = {"per leaf": (True,), "auto": (False, True)}.get(noise, (False,))
    members = [(size, one) for size in sizes for one in (own if size > 1 else (False,))]  # a tree of one leaf has one noise
    return Averaged(tuple(of(size, one) for size, one in members), combine)  # type: ignore[arg-type]  # one of the two


def stationary(
    widths: Sequence[int],
    noise: str,
    kernel: Any = "rbf",
    inference: Any = "smc",
    effort: str = EFFORT,
    mean: str = "zero",
    priors: str = "wide",
    noise_rate: float | None = None,
) -> Surrogate:
    return surrogate(kernel_prior(kernel, sum(widths), priors, len(widths)), **_gp(inference, effort, mean, noise_rate, noise))


def warped(
    d: int,
    noise: str,
    indices: int | None = None,
    inference: Any = "ml",
    effort: str = EFFORT,
    mean: str = "zero",
    noise_rate: float | None = None,
) -> Surrogate:
    return warped_surrogate(d, indices, **_gp(inference, effort, mean, noise_rate, noise))


def _gp(inference: Any, effort: str, mean: str, noise_rate: float | None, noise: str) -> dict[str, Any]:
    one_of("mean", mean, MEANS)
    return {
        "inference": make_inference(inference, effort),
        "noise": noise_rate if noise in ("learned", *BY_LEAF) else noise,
        "mean": mean,
    }
