"""A learned surrogate as plain arrays, free of JAX and of classes: what every format writes out and every analysis computes with.

Per draw i, with u in the unit cube and λ from the gates, f has the covariance
k(u, u') = Σⱼ λⱼ(u)ᵖ λⱼ(u')ᵖ vⱼ φ(Σₖ (uₖ − u'ₖ)²/ℓⱼₖ²) + constant + linear · (u − ½)·(u' − ½). A stationary kernel has one leaf
and one gate that no leaf looks at; draws with fewer leaves than others have leaves of variance zero. So all that can be exported
has one form, and what has another is refused here, with a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.errors import InputError

if TYPE_CHECKING:
    from hyperleaf.domain import Domain
    from hyperleaf.study.files import Model
    from hyperleaf.surrogates.gp import GPPosterior

Values = NDArray[np.float64]
PROFILES = ("rbf", "matern12", "matern32", "matern52")
SLACK = 1e-12  # relative; a value this little beyond a bound counts as the bound, as it does in a domain


@dataclass(frozen=True)
class AxisForm:
    """An input: its values, and the affine map of (the logarithm of) them to its column of the unit cube."""

    name: str
    unit: str
    kind: str  # "real", "integer" or "choice"
    log: bool
    low: float  # of a choice 0 and the number of its options less one: its values are counted from 0
    high: float
    options: tuple[Any, ...]
    start: int  # its first column of the unit cube
    width: int

    @property
    def ends(self) -> tuple[float, float]:
        """Of the unit interval, in the units in which it is straight."""
        half = 0.5 if self.kind == "integer" else 0.0
        low, high = self.low - half, self.high + half
        return (math.log(low), math.log(high)) if self.log else (low, high)

    def meaning(self) -> str:
        """What its values are, in words."""
        if self.kind == "choice":
            return ", ".join(f"{i} = {option}" for i, option in enumerate(self.options))
        number = "whole number" if self.kind == "integer" else "number"
        return f"{number} from {self.low:g} to {self.high:g}" + (f" [{self.unit}]" if self.unit else "")


@dataclass(frozen=True)
class Part:
    """One output: s weighted draws over n observations in d columns, with l leaves and g gates."""

    name: str
    unit: str
    loc: float  # y = loc + scale · f
    scale: float
    profile: str
    power: float  # of the leaf weights: 1, or ½
    constant: float
    linear: float
    weights: Values  # (s,)
    offset: Values  # (s, g), times the steepness, as the normals are
    normal: Values  # (s, g, d)
    side: NDArray[np.int8]  # (s, l, g): 1 where a leaf lies left of a gate, −1 right of it, 0 where it does not depend on it
    lengthscale: Values  # (s, l, d)
    variance: Values  # (s, l)
    noise: Values  # (s,), of a new observation, times exp(Σⱼ tiltⱼ λⱼ)
    tilt: Values  # (s, l), zero where noise is the same everywhere
    x: Values  # (n, d)
    y: Values  # (n,), standardised
    nugget: Values  # (s, n): what stands on the diagonal of the covariance of the data beside k
    factor: Values  # (s, n, n): L of that covariance, lower
    whitened: Values  # (s, n): L⁻¹y

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """s, n, d, l, g."""
        return (*self.whitened.shape, self.x.shape[1], *self.side.shape[1:])

    @property
    def triangle(self) -> int:
        """How many numbers the factors hold."""
        s, n, *_ = self.shape
        return s * n * (n + 1) // 2

    def only(self, draws: NDArray[np.intp], weights: Values) -> Part:
        """With some of the draws, weighed otherwise."""
        names = ("offset", "normal", "side", "lengthscale", "variance", "noise", "tilt", "nugget", "factor", "whitened")
        return replace(self, weights=weights, **{name: getattr(self, name)[draws] for name in names})


@dataclass(frozen=True)
class Ingredients:
    """All outputs over the same inputs, what is asked for of them, and the certificate that goes with it."""

    axes: tuple[AxisForm, ...]
    parts: tuple[Part, ...]
    noisy: bool = False
    quantiles: tuple[float, ...] = ()
    derivatives: bool = False
    certificate: dict[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """What is put out for each output, after its name: mean, std, and quantiles such as q05."""
        return ("mean", "std", *(quantile_name(q) for q in self.quantiles))

    @property
    def slope_columns(self) -> tuple[str, ...]:
        """What is put out besides, where derivatives are asked for: by_mach, by_mach_std of each real input."""
        names = [axis.name for axis in self.axes if axis.kind == "real" and self.derivatives]
        return tuple(f"by_{name}{ending}" for name in names for ending in ("", "_std"))

    def labels(self, taken: Collection[str]) -> list[list[str]]:
        """Names of all columns of each output where they stand side by side: lift, lift_std, lift_q05, lift_by_mach, …; and
        lift_mean for the first where its name is taken."""
        found = []
        for part in self.parts:
            names = [f"{part.name}_{column}" for column in (*self.columns, *self.slope_columns)]
            found.append([part.name if part.name not in taken else names[0], *names[1:]])
        every = [*taken, *(name for names in found for name in names)]
        for name in every:
            if every.count(name) > 1:
                raise InputError(f"inputs and what is put out must have different names; {name!r} is there twice. Rename one.")
        return found


def quantile_name(q: float) -> str:
    return "q" + f"{100 * q:04.1f}".replace(".", "_").removesuffix("_0")


def check_slopes(axes: tuple[AxisForm, ...], parts: tuple[Part, ...]) -> None:
    """Refuse derivatives where there are none."""
    if any(part.profile == "matern12" for part in parts):
        raise InputError("functions of a Matérn-1/2 kernel have no derivatives. Learn with matern32, matern52 or rbf.")
    if all(axis.kind != "real" for axis in axes):
        raise InputError("derivatives are by real inputs, and this domain has none.")


def axes_of(domain: Domain) -> tuple[AxisForm, ...]:
    forms, start = [], 0
    for name, axis in domain.axes.items():
        fields = axis.fields()
        if axis.kind not in ("real", "integer", "choice"):
            raise InputError(f"an export knows real numbers, whole numbers and choices; {name!r} is a {axis.kind!r}. Use .npz.")
        options = tuple(fields.get("options", ()))
        low, high = (0, len(options) - 1) if options else (fields["low"], fields["high"])
        forms.append(
            AxisForm(
                name,
                axis.unit or "",
                axis.kind,
                bool(fields.get("log", False)),
                float(low),
                float(high),
                options,
                start,
                axis.num_columns,
            )
        )
        start += axis.num_columns
    return tuple(forms)


def part_of(model: Model) -> Part:
    """One output as arrays; an InputError for a surrogate that is of another form."""
    from hyperleaf.surrogates.gp import GPPosterior

    posterior, scale = model.learned.posterior, model.learned.scale
    parts = [_of_draws(model, member, p) for p, member in posterior.parts() if isinstance(member, GPPosterior)]
    if not parts:
        raise InputError(
            f"this takes a Gaussian process of gates and stationary leaves; {type(posterior.surrogate).__name__} is none. "
            'Learn with the kind "hhk" or "stationary", or keep the surrogate as .npz, which holds all kinds.'
        )
    part = parts[0] if len(parts) == 1 else _joined(parts)
    return replace(part, loc=scale.loc, scale=scale.scale)


def _of_draws(model: Model, posterior: GPPosterior, probability: float) -> Part:
    import jax

    from hyperleaf.kernels import LeafNoise, Partition
    from hyperleaf.kernels.partition import path_matrices

    with jax.enable_x64(True):
        gp = jax.vmap(posterior.surrogate.prior.from_vector)(posterior.z)
    s, (n, d) = len(posterior.z), posterior.data.x.shape
    kernel = gp.kernel
    if isinstance(kernel, Partition):
        left, right = path_matrices(kernel.tree)
        gates = kernel.gates
        steepness = _filled(gates.steepness, (s, len(left[0])))
        offset, normal = steepness * np.asarray(gates.offset), steepness[:, :, None] * np.asarray(gates.normal)
        power = 0.5 if kernel.weights == "sqrt" else 1.0
        stacked = not isinstance(kernel.leaves, tuple)
        leaves: list[Any] = list(kernel.leaves) if isinstance(kernel.leaves, tuple) else [kernel.leaves]
    else:
        left = right = np.zeros((1, 0))
        offset, normal, power, stacked, leaves = np.zeros((s, 0)), np.zeros((s, 0, d)), 1.0, False, [kernel]
    if left.shape[1] == 0:  # formats are spared arrays without entries
        left = right = np.zeros((1, 1))
        offset, normal = np.zeros((s, 1)), np.zeros((s, 1, d))
    profile = _profile_of(leaves)
    count = len(left)
    if stacked:
        lengthscale = _filled(leaves[0].lengthscale, (s, count, d))
        variance = _filled(leaves[0].variance, (s, count))
    else:
        lengthscale = np.stack([_filled(leaf.lengthscale, (s, d)) for leaf in leaves], axis=1)
        variance = np.stack([_filled(leaf.variance, (s,)) for leaf in leaves], axis=1)
    if isinstance(gp.noise, LeafNoise):
        noise = _filled(gp.noise.variance, (s,))
        tilt = _filled(gp.noise.spread, (s, count)) * _filled_rows(gp.noise.deviation, (s, count))
    else:
        noise, tilt = np.asarray(posterior.noise(posterior.data.x)), np.zeros((s, count))
    constant = gp.trend_variance if gp.mean != "zero" else 0.0
    part = Part(
        name=model.output,
        unit=model.unit,
        loc=0.0,
        scale=1.0,
        profile=profile,
        power=power,
        constant=constant,
        linear=gp.trend_variance if gp.mean == "linear" else 0.0,
        weights=probability * posterior.weights,
        offset=offset,
        normal=normal,
        side=np.broadcast_to((left - right).astype(np.int8), (s, *left.shape)).copy(),
        lengthscale=lengthscale,
        variance=variance,
        noise=noise,
        tilt=tilt,
        x=np.asarray(posterior.data.x),
        y=np.asarray(posterior.data.y),
        nugget=np.zeros((s, n)),
        factor=np.tril(np.asarray(posterior.seen.factor)[:, :n, :n]),
        whitened=np.asarray(posterior.seen.whitened)[:, :n],
    )
    from hyperleaf.exports.numerics import prior_variance

    part = part.only(*_distinct(np.asarray(posterior.z), part.factor, part.weights))
    # From the factor itself, which may carry jitter of the day on which a row was added to it.
    diagonal = np.einsum("sij,sij->si", part.factor, part.factor)
    return replace(part, nugget=np.maximum(diagonal - prior_variance(part, part.x), 0.0))


def _distinct(z: Values, factor: Values, weights: Values) -> tuple[NDArray[np.intp], Values]:
    """The draws that count, each once: chains stay where they are now and then, and resampling repeats."""
    first: dict[bytes, int] = {}
    sums: dict[int, float] = {}
    for i in np.flatnonzero(weights > 0):
        kept = first.setdefault(z[i].tobytes() + factor[i].tobytes(), int(i))
        sums[kept] = sums.get(kept, 0.0) + float(weights[i])
    return np.array(list(sums), dtype=np.intp), np.array(list(sums.values()))


def _profile_of(leaves: list[Any]) -> str:
    tags = sorted({str(getattr(leaf, "tag", type(leaf).__name__)) for leaf in leaves})
    if len(tags) > 1 or tags[0] not in PROFILES:
        raise InputError(f"this takes leaves of one kernel among {list(PROFILES)}; got {', '.join(map(repr, tags))}. Use .npz.")
    return tags[0]


def _filled(value: Any, shape: tuple[int, ...]) -> Values:
    """One number for each draw, or more, as the whole array."""
    array = np.asarray(value, dtype=np.float64)
    return np.broadcast_to(array.reshape(*array.shape, *[1] * (len(shape) - array.ndim)), shape).copy()


def _filled_rows(value: Any, shape: tuple[int, ...]) -> Values:
    """The same of what is (s, l), or (l,) where it is the same in all draws."""
    return np.broadcast_to(np.asarray(value, dtype=np.float64), shape).copy()


def _joined(parts: list[Part]) -> Part:
    """Draws of several models of the same data side by side."""
    if len({(part.profile, part.power, part.constant, part.linear) for part in parts}) > 1:
        raise InputError("an average is exported if its members differ in their trees only; these do in more. Use .npz.")
    most_leaves, most_gates = (max(part.side.shape[axis] for part in parts) for axis in (1, 2))

    def padded(array: Any, leaves: bool, gates: int | None, fill: float = 0.0) -> Any:
        widths = [(0, 0)] * array.ndim
        if leaves:
            widths[1] = (0, most_leaves - array.shape[1])
        if gates is not None:
            widths[gates] = (0, most_gates - array.shape[gates])
        return np.pad(array, widths, constant_values=fill)

    plain: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("noise", "nugget", "factor", "whitened")
    }
    return replace(
        parts[0],
        weights=np.concatenate([part.weights for part in parts]),
        offset=np.concatenate([padded(part.offset, False, 1) for part in parts]),
        normal=np.concatenate([padded(part.normal, False, 1) for part in parts]),
        side=np.concatenate([padded(part.side, True, 2) for part in parts]),
        lengthscale=np.concatenate([padded(part.lengthscale, True, None, 1.0) for part in parts]),
        variance=np.concatenate([padded(part.variance, True, None) for part in parts]),
        tilt=np.concatenate([padded(part.tilt, True, None) for part in parts]),
        **plain,
    )
