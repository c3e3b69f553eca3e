"""Maps over the inputs: functions drawn from a prior, what a posterior believes, and how a partition divides the space."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hyperleaf.checks import whole_number
from hyperleaf.domain import Domain
from hyperleaf.errors import InputError
from hyperleaf.plots.sheet import (
    INK,
    PALETTE,
    Backend,
    Band,
    Colors,
    Heat,
    Layer,
    Line,
    Panel,
    Points,
    Regions,
    Scale,
    Sheet,
    Values,
    color_of,
    draw,
)
from hyperleaf.plots.subject import HELD, divided, most_divided, prior_of, read_subject
from hyperleaf.plots.view import View, base_point, unit_domain

if TYPE_CHECKING:
    from hyperleaf.kernels import Kernel, Partition
    from hyperleaf.mixture import Mixture

GRID_1D, GRID_2D = 301, 61
WEIGHT_GRID_2D = 151  # weights are cheap, and borders should be sharp
DRAW_GRID_2D = 41  # a draw over a grid of m points costs m³; this is a second for all of a figure


def prior_draws(
    prior: Any,
    key: Any = 0,
    domain: Domain | None = None,
    *,
    num: int = 3,
    d: int | None = None,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """Functions drawn from a prior over kernels, above the partitions they were drawn with (paper, Figure 2a); a column each.

    `prior` is a kernel with distributions in its fields, on one or two inputs, or an estimator, a study or a loaded model: then
    it is what that believed before data, of standardised outputs. `key` is a JAX key or a whole number. For each draw first the
    kernel and then f ~ N(0, K) on a grid. All functions share one scale, so that amplitudes can be compared.
    """
    from hyperleaf.kernels import Partition

    whole_number("num", num)
    held = read_subject(prior, None, domain)
    if held is not None:
        prior, domain = prior_of(held), held.domain
    known = _inputs(prior) if d is None else d
    if domain is None:
        if known is None:
            raise InputError(f"the number of inputs cannot be told from {type(prior).__name__}. Give d, or a domain.")
        domain = unit_domain(known)
    elif known is not None and known != domain.num_dims:
        raise InputError(f"the prior has {known} inputs but the domain has {domain.num_dims}. Make one as large as the other.")
    if domain.num_axes > 2:
        raise InputError(
            f"draws are shown over one or two inputs; the prior has {domain.num_axes}. Draw with d=1 or d=2 instead."
        )
    default = GRID_1D if domain.num_axes == 1 else DRAW_GRID_2D
    view = View(domain, domain.names, resolution=default if resolution is None else resolution)
    draws = [_draw(prior, key, i, view.points()) for i in range(num)]
    largest = max(float(np.abs(values).max()) for _, values in draws)
    tops, bottoms = [], []
    for i, (kernel, values) in enumerate(draws):
        partition = kernel if isinstance(kernel, Partition) else None
        tops.append(_function_panel(view, partition, values, f"draw {i + 1}", largest))
        if partition is not None:
            finer = View(domain, domain.names, resolution=GRID_1D if domain.num_axes == 1 else WEIGHT_GRID_2D)
            bottoms.append(_partition_panel(finer, partition, "its partition"))
    return draw(Sheet([*tops, *bottoms], columns=num), backend)


def posterior_maps(
    model: Callable[[Values], Mixture] | Any,
    domain: Domain | None = None,
    *,
    data: Any = None,
    at: Any = None,
    output: str | None = None,
    probability: float = 0.95,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """Mean and spread of a posterior: a curve with its band over one input, two maps over two, a slice along each of more.

    `model` is an estimator, a study or a loaded model, drawn in its units and with its names; a posterior; or it has a method
    `predict`, or is a function, from points (m, d) in the unit cube to a Mixture. `data` has fields x (n, d) in the unit cube and
    y (n,); by default it is what was learned from. `output` names one of a study's outputs, or what is shown. Slices go through
    `at` (a dict in native units, or d numbers in the unit cube; the centre by default). Where the domain's constraints do not
    hold, a map is blank.
    """
    held = read_subject(model, output, domain)
    if held is not None:
        predict, domain, label = held.predict, held.domain, held.label
        data = held.data if data is None else data
    else:
        predict, label = getattr(model, "predict", model), output or "f"
        data = getattr(model, "data", None) if data is None else data
    if not callable(predict):
        raise InputError(f"a map of what is believed needs {HELD}, or a function that predicts; got {type(model).__name__}.")
    if domain is None:
        if data is None:
            raise InputError("the number of inputs cannot be told from a function alone. Give a domain or data.")
        domain = unit_domain(np.shape(data.x)[1])
    if data is not None and np.shape(data.x)[1] != domain.num_dims:
        raise InputError(f"data.x must have {domain.num_dims} columns, as the domain has; got {np.shape(data.x)[1]}.")
    if domain.num_axes == 2:
        return draw(_posterior_2d(predict, View(domain, domain.names, at, resolution or GRID_2D), data, label), backend)
    slices: list[tuple[View, Values, Values, Values]] = []
    for name in domain.names:
        view = View(domain, [name], at, resolution or (GRID_1D if domain.num_axes == 1 else 101))
        mixture = predict(view.points())
        low, high = mixture.interval(probability)
        slices.append((view, view.masked(mixture.mean()), view.masked(low), view.masked(high)))
    # Slices share their vertical scale, or the flat ones would look as lively as the steep ones.
    height = None if len(slices) == 1 else _with_margin([low for _, _, low, _ in slices], [high for _, _, _, high in slices])
    panels = []
    for view, mean, low, high in slices:
        layers = _curve(view, mean, low, high, f"{probability:.0%} of the probability")
        if height is None:
            layers += [] if data is None else [Points(view.place(0, data.x), np.asarray(data.y), "observations")]
        else:
            place = np.repeat(view.place(0, base_point(domain, at)[None]), 2)
            layers.append(Line(place, np.array(height), "the point", "#888888", 1.2, dashed=True))
        scale = Scale(label) if height is None else Scale(label, *height)
        panels.append(Panel(view.scale(0), scale, layers, square=height is not None))
    return draw(Sheet(panels, _columns(len(panels))), backend)


def leaf_weight_maps(
    model: Any,
    domain: Domain | None = None,
    *,
    axes: tuple[str, ...] | None = None,
    output: str | None = None,
    at: Any = None,
    data: Any = None,
    most: int | None = None,
    resolution: int | None = None,
    backend: Backend = "plotly",
) -> Any:
    """How a partition divides the space (paper, Figure 4): a panel with λⱼ(x) for each leaf, and one with the largest of them.

    `model` is an estimator, a study or a loaded model, whose likeliest draw is shown with its data; or a partition, one draw with
    numbers in its fields. Lines are the gates, each drawn only where the gates above it let it divide. With `most`, only so many
    leaves, those of largest mean weight. Over more than two inputs the maps are slices along two `axes` through `at`; of a model
    these are by themselves the two that its gates divide most. Over one input all weights are curves in one panel.
    """
    held = read_subject(model, output, domain)
    partition: Any = model
    if held is not None:
        partition, domain = divided(held), held.domain
        axes = most_divided(partition, domain) if axes is None and domain.num_axes > 2 else axes
        data = held.data if data is None and domain.num_axes <= 2 else data
    d = _concrete(partition)
    domain = domain or unit_domain(d)
    if domain.num_dims != d:
        raise InputError(
            f"the partition divides {d} dimensions but the domain has {domain.num_dims}. Give the domain of its data."
        )
    if axes is None and domain.num_axes > 2:
        raise InputError(f"over {domain.num_axes} inputs name the two axes to show, of {list(domain.names)}; got none.")
    names = domain.names if axes is None else tuple(axes)
    if most is not None and most < 1:
        raise InputError(f"most must be a whole number ≥ 1, or None for all leaves; got {most!r}.")
    if len(names) > 2:
        raise InputError(f"a map has at most two axes; got {list(names)}.")
    default = GRID_1D if len(names) == 1 else WEIGHT_GRID_2D
    view = View(domain, names, at, default if resolution is None else resolution)
    if len(names) == 1:
        return draw(Sheet([_partition_panel(view, partition, "")], columns=1), backend)
    weights = _leaf_weights(partition, view.points())
    share = weights.mean(axis=1)
    order = np.argsort(-share, kind="stable")[: len(share) if most is None else most]
    shown = range(len(share)) if most is None else [int(j) for j in order]
    gates = _gate_layers(view, partition)
    points = [] if data is None else [Points(view.place(0, data.x), view.place(1, data.x), "observations")]
    panels = [_partition_panel(view, partition, "largest weight", points)]
    for j in shown:
        z = view.masked(weights[j])
        heat = Heat(view.ticks[0], view.ticks[1], z, "leaf weight", "share", 0.0, 1.0, smooth=view.smooth)
        panels.append(Panel(view.scale(0), view.scale(1), [heat, *gates, *points], f"leaf {j} (mean weight {share[j]:.2f})"))
    return draw(Sheet(panels, _columns(len(panels))), backend)


# --- parts -----------------------------------------------------------------------------------------------------------------


def _posterior_2d(predict: Callable[[Values], Mixture], view: View, data: Any, output: str) -> Sheet:
    mixture = predict(view.points())
    points = [] if data is None else [Points(view.place(0, data.x), view.place(1, data.x), "observations")]
    panels = []
    shown: list[tuple[str, Values, Colors]] = [
        ("mean", mixture.mean(), "value"),
        ("standard deviation", mixture.std(), "spread"),
    ]
    for title, values, colors in shown:
        low = 0.0 if colors == "spread" else None
        label = f"{title} of {output}"
        heat = Heat(
            view.ticks[0], view.ticks[1], view.masked(values), label, colors, low, contours=view.smooth, smooth=view.smooth
        )
        panels.append(Panel(view.scale(0), view.scale(1), [heat, *points], title))
    return Sheet(panels, columns=2)


def _function_panel(view: View, partition: Partition | None, values: Values, title: str, largest: float) -> Panel:
    gates = [] if partition is None else _gate_layers(view, partition, largest)
    if len(view.axes) == 1:
        line = Line(view.ticks[0], values, color=INK)
        return Panel(view.scale(0), Scale("f", -1.05 * largest, 1.05 * largest), [*gates, line], title)
    z = view.masked(values)
    heat = Heat(view.ticks[0], view.ticks[1], z, "f", "signed", -largest, largest, smooth=view.smooth)
    return Panel(view.scale(0), view.scale(1), [heat, *gates], title)


def _partition_panel(view: View, partition: Partition, title: str, extra: list[Any] | None = None) -> Panel:
    """Over one input the weights of all leaves, over two the leaf of largest weight with its number in the middle."""
    weights = _leaf_weights(partition, view.points())
    gates = _gate_layers(view, partition)
    if len(view.axes) == 1:
        curves = [Line(view.ticks[0], w, f"leaf {j}", color_of(j)) for j, w in enumerate(weights)]
        return Panel(view.scale(0), Scale("leaf weight", -0.02, 1.02), [*gates, *curves], title)
    index = view.masked(weights.argmax(axis=0).astype(float))
    regions = Regions(view.ticks[0], view.ticks[1], index)
    present = np.unique(index[np.isfinite(index)])
    middles = np.array([_middle(index == j) for j in present], dtype=int).reshape(-1, 2)
    labels = Points(view.ticks[0][middles[:, 1]], view.ticks[1][middles[:, 0]], labels=[f"{j:.0f}" for j in present])
    return Panel(view.scale(0), view.scale(1), [regions, *gates, *(extra or []), labels], title)


def _gate_layers(view: View, partition: Partition, reach: float = 1.0) -> list[Layer]:
    if len(view.axes) == 1:
        ends = np.array([-1.05 * reach, 1.05 * reach])
        return [
            Line(np.full(2, x), ends, f"gate {gate}", "#888888", 1.2, dashed=True, legend=False)
            for gate, x in view.gate_points(partition)
        ]
    return [Line(x, y, f"gate {gate}", INK, 1.8, halo=True, legend=False) for gate, x, y in view.gate_lines(partition)]


def _middle(mask: Any) -> tuple[int, int]:
    """The cell of a region that is farthest from its rim: where a label fits."""
    from scipy.ndimage import distance_transform_edt

    distance = distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    cells = np.argwhere(distance >= distance.max() - 0.5)  # a band has many such cells: take the middle one
    row, column = cells[np.argmin(np.sum((cells - cells.mean(axis=0)) ** 2, axis=1))]
    return int(row), int(column)


def _curve(view: View, mean: Values, low: Values, high: Values, name: str) -> list[Layer]:
    """Mean and band along an axis; for a Choice, where nothing lies between, a bar and a dot for each option."""
    x = view.ticks[0]
    if view.axes[0].ordered:
        return [Band(x, low, high, name), Line(x, mean, "mean")]
    bars: list[Layer] = [Band(x[i] + np.array([-0.1, 0.1]), low[[i, i]], high[[i, i]], name) for i in range(len(x))]
    return [*bars, Points(x, mean, color=PALETTE[0])]


def _with_margin(lows: list[Values], highs: list[Values]) -> tuple[float, float]:
    low, high = min(float(np.nanmin(v)) for v in lows), max(float(np.nanmax(v)) for v in highs)
    margin = 0.04 * (high - low)
    return low - margin, high + margin


def _columns(panels: int) -> int:
    return 2 if panels == 4 else min(3, panels)


def _leaf_weights(partition: Partition, x: ArrayLike) -> Values:
    import jax.numpy as jnp

    from hyperleaf.precision import float64

    return float64(lambda: np.asarray(partition.leaf_weights(jnp.asarray(x))))()


def _draw(prior: Kernel, key: Any, number: int, x: Values) -> tuple[Any, Values]:
    """The number-th kernel of the prior, and a function of it at x."""
    import jax

    from hyperleaf.precision import float64
    from hyperleaf.priors import Prior
    from hyperleaf.surrogates.base import numpy_generator

    key = jax.random.key(key) if isinstance(key, int | np.integer) else key
    for_kernel, for_function = jax.random.split(jax.random.fold_in(key, number))
    kernel = float64(Prior(prior).sample)(for_kernel)
    gram = kernel(x)
    jitter = 1e-8 * np.mean(np.diag(gram))  # a standard deviation of 1e-4: not to be seen
    factor = np.linalg.cholesky(gram + jitter * np.eye(len(x)))
    return kernel, factor @ numpy_generator(for_function).standard_normal(len(x))


def _inputs(prior: Any) -> int | None:
    """The number of inputs, where the fields of a kernel tell."""
    value: Any = prior.gates.normal if hasattr(prior, "gates") else getattr(prior, "lengthscale", 1.0)
    shape = value.shape() if callable(getattr(value, "shape", None)) else np.shape(value)
    return int(shape[-1]) if shape else None


def _concrete(partition: Any) -> int:
    """The number of dimensions of a partition with numbers in its gates."""
    from hyperleaf.kernels import Partition

    if not isinstance(partition, Partition):
        raise InputError(f"a map of leaf weights needs a Partition; got {type(partition).__name__}.")
    normal = partition.gates.normal
    if callable(getattr(normal, "shape", None)):
        raise InputError(
            "a map shows one partition, with numbers in its gates; got distributions. Draw one: Prior(kernel).sample(key)."
        )
    if np.ndim(normal) != 2:
        raise InputError(f"a map shows one partition, with normal (g, d); got shape {np.shape(normal)}. Pick one of the draws.")
    return int(np.shape(normal)[1])
