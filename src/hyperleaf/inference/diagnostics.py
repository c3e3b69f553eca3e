"""How far chains may be trusted: rank-normalised split R-hat, effective sample sizes, Monte-Carlo errors, and words for them.

The numbers follow Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021) for arrays (chains, draws). They are meant for
quantities that do not depend on labels, since the children of a gate may swap: log likelihood, noise, f(x*), k(x, x′).
`to_xarray_groups` hands draws on to ArviZ by the names that parameters have in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from hyperleaf.errors import InputError
from hyperleaf.inference.chains import Chains
from hyperleaf.precision import float64
from hyperleaf.priors import Prior

if TYPE_CHECKING:
    import xarray

MAX_RHAT = 1.01
BAD_RHAT = 1.1
MIN_ESS = 100  # at 100 a posterior mean is known to a tenth of the posterior's standard deviation
FEW_ACCEPTED = 0.1


def rhat(x: ArrayLike) -> float:
    """Rank-normalised split R-hat of x (chains, draws): the worse of location and spread. NaN where x does not vary."""
    x = _checked(x)
    if not _usable(x) or _constant(x):
        return float("nan")
    halves = _split(x)
    folded = np.abs(halves - np.median(halves))
    return max(_split_rhat(_rank_normalised(halves)), _split_rhat(_rank_normalised(folded)))


def ess_bulk(x: ArrayLike) -> float:
    """Effective sample size for the centre of the distribution of x (chains, draws); all draws where x does not vary."""
    x = _checked(x)
    return _ess(_rank_normalised(_split(x))) if _usable(x) else float("nan")


def ess_tail(x: ArrayLike) -> float:
    """Effective sample size for the tails of x (chains, draws): the smaller of those for its 5 % and 95 % quantiles."""
    x = _checked(x)
    if not _usable(x):
        return float("nan")
    # R's type 7, as in ArviZ: another rule can move a draw over the border, and the ESS of short chains by a tenth.
    quantiles = np.quantile(x, (0.05, 0.95))
    return min(_ess(_split((x <= q).astype(float))) for q in quantiles)


def ess_mean(x: ArrayLike) -> float:
    """Effective sample size for the mean of x (chains, draws), without ranks."""
    x = _checked(x)
    return _ess(_split(x)) if _usable(x) else float("nan")


def mcse_mean(x: ArrayLike) -> float:
    """Monte-Carlo standard error of the mean of x (chains, draws): std / √ESS."""
    x = _checked(x)
    return float(x.std(ddof=1) / np.sqrt(ess_mean(x)))


def mcse_std(x: ArrayLike) -> float:
    """Monte-Carlo standard error of the standard deviation of x: that of the mean of (x − mean)², by the delta method."""
    x = _checked(x)
    square = (x - x.mean()) ** 2
    return float(mcse_mean(square) / (2 * np.sqrt(square.mean())))


def summarise(quantities: Mapping[str, ArrayLike]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """R-hat, bulk ESS and tail ESS of each quantity (chains, draws, …); where there are further axes, the worst of them."""

    def worst(function: Callable, combine: Callable, x: ArrayLike) -> float:
        array = np.asarray(x, dtype=np.float64)
        if array.ndim < 2:
            raise InputError(f"a quantity must have shape (chains, draws, …); got {array.shape}.")
        columns = np.moveaxis(array.reshape(*array.shape[:2], -1), 2, 0)
        values = np.array([function(column) for column in columns])
        return float(combine(values)) if not np.isnan(values).all() else float("nan")

    return (
        {name: worst(rhat, np.nanmax, x) for name, x in quantities.items()},
        {name: worst(ess_bulk, np.min, x) for name, x in quantities.items()},
        {name: worst(ess_tail, np.min, x) for name, x in quantities.items()},
    )


def messages(
    rhat: Mapping[str, float],
    ess_bulk: Mapping[str, float],
    ess_tail: Mapping[str, float],
    *,
    chains: Chains | None = None,
    min_ess: float = MIN_ESS,
) -> tuple[str, ...]:
    """What is to be said about these numbers, worst first, in sentences; nothing if all is well."""
    said = [] if chains is None else _about_chains(chains)
    broken = sorted(name for name, value in ess_bulk.items() if np.isnan(value))
    if broken:
        said.append(f"{_listed(broken)} cannot be judged: infinite or missing values, or fewer than 4 draws.")
    apart = {name: value for name, value in rhat.items() if value > MAX_RHAT}
    if apart:
        name, value = max(apart.items(), key=lambda item: item[1])
        if value > BAD_RHAT:
            advice = "they have not found the same distribution; run them longer, start them elsewhere, or use SMC."
        else:
            advice = "they agree roughly, not yet fully; more draws help."
        others = f" ({len(apart) - 1} more quantities exceed {MAX_RHAT})" if len(apart) > 1 else ""
        said.append(f"The chains differ in {name}: R-hat {value:.3g}, where 1 is agreement{others}; {advice}")
    for sizes, part in ((ess_bulk, "average"), (ess_tail, "tails")):
        name, value = min(((n, v) for n, v in sizes.items() if not np.isnan(v)), key=lambda item: item[1], default=("", np.inf))
        if value < min_ess:
            said.append(
                f"The draws are worth only {value:.0f} independent ones for the {part} of {name}, and {min_ess:g} are wanted; "
                "draw more or thin less."
            )
    return tuple(said)


def _about_chains(chains: Chains) -> list[str]:
    said = []
    total = chains.divergent.size
    stuck = np.flatnonzero((chains.z == chains.z[:, :1]).all(axis=(1, 2)) & (chains.num_draws > 1))
    if len(stuck):
        said.append(
            f"{_count(len(stuck), 'chain')} of {chains.num_chains} never moved and tell nothing but where they started; "
            "drop them, or warm up longer with a smaller initial step size."
        )
    slow = np.flatnonzero(chains.acceptance.mean(axis=1) < FEW_ACCEPTED)
    slow = np.setdiff1d(slow, stuck)
    if len(slow):
        lowest = chains.acceptance.mean(axis=1)[slow].min()
        said.append(f"{_count(len(slow), 'chain')} accepted almost no proposal (as few as {lowest:.1%}); warm up longer.")
    divergent = int(chains.num_divergent.sum())
    if divergent:
        said.append(
            f"{divergent} of {chains.num_transitions * chains.num_chains} trajectories diverged, so corners of the posterior may "
            "be missing; raise target_acceptance."
        )
    saturated = int(chains.saturated.sum())
    if saturated > 0.1 * total:
        said.append(f"{saturated} of {total} trajectories were cut off at their greatest length; raise max_depth to mix faster.")
    if chains.num_replaced:
        said.append(
            f"{_count(chains.num_replaced, 'start')} of {chains.num_chains} had no density and began at another start instead, "
            "so that fewer different starts are compared."
        )
    return said


def named_parameters(prior: Prior, z: ArrayLike) -> dict[str, NDArray[np.float64]]:
    """The constrained parameters behind unconstrained vectors z (…, p), by dotted path: "kernel.gates.offset" (…, g), …"""
    z = np.asarray(z, dtype=np.float64)
    if z.shape[-1] != prior.size:
        raise InputError(f"vectors of this prior must have {prior.size} entries; got {z.shape[-1]}.")
    values = _constrained(prior, z.reshape(-1, z.shape[-1]))
    return {
        name: value.reshape(*z.shape[:-1], *value.shape[1:]) for name, value in zip(parameter_names(prior), values, strict=True)
    }


def parameter_names(prior: Prior) -> list[str]:
    """The dotted path of each distribution in the prior, in the order of z."""
    paths = jax.tree_util.tree_flatten_with_path(prior.tree, is_leaf=lambda leaf: any(leaf is d for d in prior.distributions))[0]
    found = [path for path, leaf in paths if any(leaf is d for d in prior.distributions)]
    return [".".join(_name_of(part) for part in path) or "parameter" for path in found]


def sample_stats(chains: Chains) -> dict[str, NDArray]:
    """Statistics of the sampler under ArviZ's names, each (chains, draws)."""
    return {
        "lp": chains.log_density,
        "acceptance_rate": chains.acceptance,
        "diverging": chains.divergent,
        "n_steps": chains.num_steps,
        "step_size": np.broadcast_to(chains.step_size[:, None], chains.log_density.shape),
        "reached_max_treedepth": chains.saturated,
    }


def to_xarray_groups(
    z: ArrayLike,
    prior: Prior,
    *,
    quantities: Mapping[str, ArrayLike] | None = None,
    stats: Mapping[str, ArrayLike] | None = None,
    log_likelihood: ArrayLike | None = None,
    observed: Mapping[str, ArrayLike] | None = None,
    constant: Mapping[str, ArrayLike] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> dict[str, xarray.Dataset]:
    """Draws z (chains, draws, p) and what belongs to them as ArviZ's groups, for `xarray.DataTree.from_dict` or InferenceData.

    `posterior` holds the named parameters and `quantities` (chains, draws, …); `sample_stats` holds `stats`, `log_likelihood` the
    pointwise one (chains, draws, n); `observed_data` and `constant_data` hold arrays without chains. Empty groups are left out.
    """
    z = np.asarray(z, dtype=np.float64)
    if z.ndim != 3:
        raise InputError(f"draws must have shape (chains, draws, p); got {z.shape}. Give a single chain a leading axis.")
    drawn: dict[str, Mapping[str, ArrayLike]] = {
        "posterior": {**named_parameters(prior, z), **(quantities or {})},
        "sample_stats": stats or {},
        "log_likelihood": {} if log_likelihood is None else {"y": log_likelihood},
    }
    for group, arrays in drawn.items():
        for name, array in arrays.items():
            if np.shape(array)[:2] != z.shape[:2]:
                raise InputError(
                    f"{name!r} of {group} must have shape (chains, draws, …) = {(*z.shape[:2], '…')}; got {np.shape(array)}."
                )
    groups = {name: _dataset(arrays, ("chain", "draw"), attrs) for name, arrays in drawn.items() if arrays}
    fixed = {"observed_data": observed or {}, "constant_data": constant or {}}
    groups |= {name: _dataset(arrays, (), attrs) for name, arrays in fixed.items() if arrays}
    return groups


def _dataset(arrays: Mapping[str, ArrayLike], leading: tuple[str, ...], attrs: Mapping[str, Any] | None) -> xarray.Dataset:
    import xarray

    variables: dict[str, tuple[list[str], NDArray]] = {}
    coords: dict[str, NDArray] = {}
    for name, values in arrays.items():
        array = np.asarray(values)
        dims = [*leading, *(f"{name}_dim_{i}" for i in range(array.ndim - len(leading)))]
        variables[name] = (dims, array)
        coords |= {dim: np.arange(size) for dim, size in zip(dims, array.shape, strict=True)}
    return xarray.Dataset(variables, coords, dict(attrs or {}))


@float64
def _constrained(prior: Prior, z: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    return [np.asarray(value) for value in _constrained_values(prior, jnp.asarray(z))]


@eqx.filter_jit
def _constrained_values(prior, z):
    return jax.vmap(lambda row: prior._values(prior.from_vector(row)))(z)


def _name_of(part: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(part, attribute):
            return str(getattr(part, attribute))
    return str(part)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def _checked(x: ArrayLike) -> NDArray[np.float64]:
    x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2:
        raise InputError(f"a quantity must have shape (chains, draws); got {x.shape}.")
    return x


def _usable(x: NDArray[np.float64]) -> bool:
    return x.shape[1] >= 4 and bool(np.isfinite(x).all())


def _constant(x: NDArray[np.float64]) -> bool:
    return bool(np.ptp(x) <= 1e-15 * max(1.0, float(np.abs(x).max())))


def _split(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each chain as two halves, so that a drift within a chain shows; an odd draw in the middle is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _rank_normalised(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of the ranks over all chains: Φ⁻¹((rank − 3/8) / (S + 1/4)); ties share their mean rank."""
    from scipy.stats import rankdata  # slow to import

    return ndtri((rankdata(x, axis=None).reshape(x.shape) - 0.375) / (x.size + 0.25))


def _split_rhat(x: NDArray[np.float64]) -> float:
    num = x.shape[1]
    within = x.var(axis=1, ddof=1).mean()
    between = x.mean(axis=1).var(ddof=1)
    if within <= 0:
        return float("inf") if between > 0 else 1.0
    return float(np.sqrt((num - 1) / num + between / within))


def _ess(x: NDArray[np.float64]) -> float:
    """S / τ, with τ = −1 + 2 Σ_k P_k over Geyer's initial monotone sequence of pairs P_k = ρ_2k + ρ_2k+1.

    The autocorrelations ρ_t = 1 − (W − mean autocovariance at lag t) / var⁺ combine the chains, so that chains that disagree
    count for little.
    """
    if _constant(x):
        return float(x.size)
    num_chains, num = x.shape
    centred = x - x.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * num, axis=1)
    autocovariance = (np.fft.irfft(np.abs(spectrum) ** 2, 2 * num, axis=1)[:, :num] / num).mean(axis=0)
    within = autocovariance[0] * num / (num - 1)
    spread = autocovariance[0] + (x.mean(axis=1).var(ddof=1) if num_chains > 1 else 0.0)
    rho = 1.0 - (within - autocovariance) / spread
    rho[0] = 1.0
    pairs = rho[: 2 * (num // 2)].reshape(-1, 2).sum(axis=1)[: max(1, (num - 1) // 2)]
    negative = np.flatnonzero(pairs[1:] < 0)
    last = int(negative[0]) + 1 if len(negative) else len(pairs) - 1
    tau = -1.0 + 2.0 * np.minimum.accumulate(pairs[:last]).sum() + max(float(rho[2 * last]), 0.0)
    return float(x.size / max(tau, 1.0 / np.log10(x.size)))
