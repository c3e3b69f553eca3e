"""The regressors: hierarchical hyperplanes, one stationary kernel, warped indices, axis-aligned trees, deep Gaussian processes.

A constructor only stores its parameters; `fit` checks them. Each regressor is one `kind` of surrogate, built from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.estimators.base import SurrogateRegressor
from hyperleaf.estimators.partition import NativePartition, native_partition


class HHKRegressor(SurrogateRegressor):
    """A Gaussian process with the Hierarchical-Hyperplane Kernel, fully Bayesian: its partition is learned with its uncertainty.

    Parameters
    ----------
    leaves : regions of the balanced tree.
    inference : "smc" (moves on by `partial_fit`, gives the evidence), "nuts", "hmc", "map", or a config such as
        SMC(particles=256) or NUTS(draws=500).
    effort : how hard "smc" works: "fast" where a run takes seconds, "standard" minutes or more, "thorough" hours. Other methods,
        and a config, have settings of their own in its place.
    mean : a "linear" or "constant" trend whose coefficients are integrated out, or "zero" as in the paper, whose model is this
        one with mean="zero", inference="hmc", priors="paper" and noise_rate=10.0.
    weights : "product" (the paper) or "sqrt", of the gates.
    priors : "wide", gates soft or sharp and lengthscales made for the number of inputs, or "paper".
    noise : "learned", its variance with a wide log-normal prior, or with the paper's exponential one of rate `noise_rate`; "per
        leaf", a variance for each leaf, where some regions are noisier than others, and "auto", these two weighed by evidence; or
        "known", only what `fit` is given as noise_variance. Learned noise adds to noise_variance if both are there. "none" is
        for a simulator that repeats exactly: nothing is learned, and a thousandth of the spread of y keeps the arithmetic stable.
        "robust" is learned too, but sets values aside that do not go with the others (`aside_`), so that a few wild ones ruin
        nothing.
    domain : the box of the inputs, a Domain; None learns it from X.
    output_range : (low, high) in which outputs are expected; None estimates the scale from y.
    choose_leaves : sizes of trees to run side by side, as (1, 2, 4, 8), in place of `leaves`; with SMC only;
        "smc" then takes longer moves than the effort says (`SMC.for_evidence`).
    combine : "average" weighs these by their evidence, "best" takes the most probable.
    random_state : a seed.

    After `fit`: learned_, posterior_, domain_, standardizer_, diagnostics_, partition_, log_evidence_, n_features_in_.
    """

    kind = "hhk"

    def __init__(
        self,
        leaves: int = 8,
        *,
        inference: Any = "smc",
        effort: str = "standard",
        mean: str = "linear",
        weights: str = "product",
        priors: str = "wide",
        noise: str = "learned",
        noise_rate: float | None = None,
        domain: Domain | None = None,
        output_range: tuple[float, float] | None = None,
        choose_leaves: Sequence[int] | None = None,
        combine: str = "average",
        random_state: Any = 0,
    ) -> None:
        self.leaves = leaves
        self.inference = inference
        self.effort = effort
        self.mean = mean
        self.weights = weights
        self.priors = priors
        self.noise = noise
        self.noise_rate = noise_rate
        self.domain = domain
        self.output_range = output_range
        self.choose_leaves = choose_leaves
        self.combine = combine
        self.random_state = random_state

    def partition(self, index: int | None = None) -> NativePartition:
        """The partition of draw `index` in native units; of the draw of highest posterior density if none is named."""
        self._check_fitted()
        posterior: Any = self.posterior_.best
        if index is not None and (isinstance(index, bool) or not 0 <= index < posterior.num_draws):
            raise InputError(f"a draw is a whole number from 0 to {posterior.num_draws - 1}; got {index!r}.")
        return native_partition(posterior.draw(index).kernel, self.domain_, self.standardizer_)

    @property
    def partition_(self) -> NativePartition:
        """The partition of the draw of highest posterior density, in native units."""
        return self.partition()


class StationaryRegressor(SurrogateRegressor):
    """A Gaussian process with one kernel for the whole space, fully Bayesian.

    `kernel` is "rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", a kernel class, or a kernel object
    over the unit cube whose fields hold numbers (fixed) or distributions (learned). The other parameters are those of
    `HHKRegressor`.
    """

    kind = "stationary"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        inference: Any = "smc",
        effort: str = "standard",
        mean: str = "zero",
        priors: str = "wide",
        noise: str = "learned",
        noise_rate: float | None = None,
        domain: Domain | None = None,
        output_range: tuple[float, float] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.inference = inference
        self.effort = effort
        self.mean = mean
        self.priors = priors
        self.noise = noise
        self.noise_rate = noise_rate
        self.domain = domain
        self.output_range = output_range
        self.random_state = random_state


class WarpedRegressor(SurrogateRegressor):
    """A Gaussian process with the Warped Multi-Index kernel: a Matérn-5/2 of warped linear combinations of the inputs.

    `indices` is the number of these combinations, by default that of the inputs. `inference` "ml" is type-II maximum likelihood
    with ten restarts, as published, or Map(restarts=…, prior=False): one set of parameters, found between bounds, and nothing
    is said of their uncertainty. "smc", "nuts", "hmc" and "map" use priors of our own (`warped_prior`). `noise_rate` belongs to
    these priors and has no effect with "ml"; `effort` belongs to "smc". The other parameters are those of `HHKRegressor`.
    """

    kind = "warped"

    def __init__(
        self,
        indices: int | None = None,
        *,
        inference: Any = "ml",
        effort: str = "standard",
        mean: str = "zero",
        noise: str = "learned",
        noise_rate: float | None = None,
        domain: Domain | None = None,
        output_range: tuple[float, float] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.indices = indices
        self.inference = inference
        self.effort = effort
        self.mean = mean
        self.noise = noise
        self.noise_rate = noise_rate
        self.domain = domain
        self.output_range = output_range
        self.random_state = random_state


class TreedRegressor(SurrogateRegressor):
    """The Bayesian treed Gaussian process: axis-aligned splits, a GP with a linear trend in every leaf. See `TreedGP`.

    Its noise is learned, one level per leaf, and it finds the scale of the outputs by itself.
    """

    kind = "treed"

    def __init__(
        self,
        *,
        burn_in: int = 2000,
        total: int = 7000,
        thin: int = 2,
        chains: int = 1,
        trend: str = "linear",
        min_leaf: int | None = None,
        tree: bool = True,
        domain: Domain | None = None,
        output_range: tuple[float, float] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.burn_in = burn_in
        self.total = total
        self.thin = thin
        self.chains = chains
        self.trend = trend
        self.min_leaf = min_leaf
        self.tree = tree
        self.domain = domain
        self.output_range = output_range
        self.random_state = random_state


class DeepRegressor(SurrogateRegressor):
    """A deep Gaussian process of one, two or three layers, fully Bayesian. See `DeepGP`.

    Its noise is learned; `noise_variance` in `fit` gives only the noise's pattern over the observations.
    """

    kind = "deep"

    def __init__(
        self,
        layers: int = 2,
        *,
        kernel: str = "matern52",
        sweeps: int = 10_000,
        burn_in: int | None = None,
        draws: int = 100,
        chains: int = 1,
        domain: Domain | None = None,
        output_range: tuple[float, float] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.layers = layers
        self.kernel = kernel
        self.sweeps = sweeps
        self.burn_in = burn_in
        self.draws = draws
        self.chains = chains
        self.domain = domain
        self.output_range = output_range
        self.random_state = random_state
