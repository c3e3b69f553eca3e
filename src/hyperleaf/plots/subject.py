"""What is drawn: an estimator, a study, a loaded model or a bare posterior, each read as the same few things.

`Subject` has predictions and data in native units, the domain with its names, and the posterior for pictures that look inside.
A posterior alone knows neither units nor names: its inputs are the unit cube and its output is standardised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperleaf.data import Pool
from hyperleaf.domain import Domain, Point
from hyperleaf.errors import InputError, NotFittedYetError
from hyperleaf.plots.sheet import Values
from hyperleaf.plots.view import unit_domain

if TYPE_CHECKING:
    from hyperleaf.kernels import Kernel, Partition
    from hyperleaf.mixture import Mixture
    from hyperleaf.surrogates.base import Posterior
    from hyperleaf.surrogates.learned import Learned

HELD = "a fitted estimator, a study, a model read by load_model, or a posterior"


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations: x (n, d) in the unit cube, y (n,) in the units of the picture."""

    x: Values
    y: Values


@dataclass(frozen=True, eq=False)
class Subject:
    """`predict` goes from the unit cube to native units; `label` is the output with its unit. `pending` are points that
    were asked and not told, `pool` the candidates and `criterion` the acquisition, where a study has them."""

    posterior: Posterior
    predict: Callable[[Values], Mixture]
    domain: Domain
    data: Observed
    label: str = "f"
    learned: Learned | None = None
    pool: Pool | None = None
    pending: Sequence[Point] = ()
    criterion: str | None = None


def read_subject(model: Any, output: str | None = None, domain: Domain | None = None) -> Subject | None:
    """What there is to draw of `model`; None if it is none of the things that people hold. `output` names one of a study's, and
    is the label for others."""
    from hyperleaf.study.files import Model
    from hyperleaf.study.snapshot import Snapshot
    from hyperleaf.study.study import Study
    from hyperleaf.surrogates.base import Posterior
    from hyperleaf.surrogates.learned import Learned

    if isinstance(model, Study | Snapshot):
        return _of_study(model, output)
    if isinstance(model, Model):
        label = f"{model.output} [{model.unit}]" if model.unit else model.output
        return _of_learned(model.learned, model.domain, output or label)
    if isinstance(model, Learned):
        return _of_learned(model, domain or unit_domain(model.posterior.data.num_dims), output or "f")
    if isinstance(model, Posterior):
        data = Observed(model.data.x, np.asarray(model.data.y))
        return Subject(model, model.predict, domain or unit_domain(model.data.num_dims), data, output or "f")
    if hasattr(model, "learned_"):  # an estimator: its room is above this one
        return _of_learned(model.learned_, domain or model.domain_, output or "y")
    if hasattr(model, "fit") and hasattr(model, "domain"):
        raise NotFittedYetError(f"a picture shows a fitted estimator; this {type(model).__name__} has seen no data. Call fit.")
    return None


def _of_learned(learned: Learned, domain: Domain, label: str) -> Subject:
    data = Observed(learned.posterior.data.x, np.asarray(learned.y))
    return Subject(learned.posterior, learned.predict, domain, data, label, learned)


def _of_study(study: Any, output: str | None) -> Subject:
    """From one reading of it: what was learned of one output, what is open, and how the next query is chosen."""
    from hyperleaf.storage.base import State
    from hyperleaf.study.snapshot import Snapshot

    snapshot = study if isinstance(study, Snapshot) else study.snapshot(learn=True)
    outputs = snapshot.definition.outputs
    name = next(iter(outputs)) if output is None else output
    if name not in outputs:
        raise InputError(f"output must be one of {list(outputs)}; got {name!r}.")
    if name not in snapshot.models:
        raise NotFittedYetError(
            f"a picture shows what was learned; the study {snapshot.name!r} has learned nothing yet. Tell some runs first"
            + (", and take the snapshot with learn=True." if study is snapshot else ".")
        )
    unit = outputs[name].unit
    found = _of_learned(snapshot.models[name], snapshot.domain, f"{name} [{unit}]" if unit else name)
    waiting = [dict(query.point) for query in snapshot.in_state(State.RUNNING, State.WAITING)]
    pool = None if study is snapshot else study.pool
    criterion = snapshot.definition.acquisition.kind
    return Subject(found.posterior, found.predict, found.domain, found.data, found.label, found.learned, pool, waiting, criterion)


def divided(held: Subject) -> Partition:
    """How the likeliest draw of a model divides its inputs."""
    partition = held.posterior.partition()
    if partition is None:
        raise InputError(
            "a map of leaf weights needs a surrogate that divides its inputs by gates, and this one has none. Take the HHK with "
            'two leaves or more: HHKRegressor(leaves=8), surrogate = "hhk".'
        )
    return partition


def most_divided(partition: Partition, domain: Domain) -> tuple[str, ...]:
    """The two ordered axes along which the gates change most, in the order of the domain."""
    slopes, start = np.abs(np.asarray(partition.gates.normal)).sum(axis=0), 0
    change: dict[str, float] = {}
    for name, axis in domain.axes.items():
        if axis.ordered:
            change[name] = float(slopes[start])
        start += axis.num_columns
    most = sorted(change, key=lambda name: -change[name])[:2]
    if not most:
        raise InputError(f"gates are lines over numbers; all of {list(domain.names)} are choices. There is nothing to draw.")
    return tuple(name for name in domain.names if name in most)


def prior_of(held: Subject) -> Kernel:
    from hyperleaf.surrogates.gp import GPPosterior

    posterior = held.posterior.best
    if not isinstance(posterior, GPPosterior):
        kind = type(held.posterior).__name__
        raise InputError(f"draws from a prior need a surrogate that is one kernel; {kind} is not of one. Give a kernel.")
    return posterior.surrogate.model.kernel
