"""What a report is about, gathered once: the runs, and for each output what is known and how well.

Nothing here knows of pages or pictures. `gather` reads a study; a study that has learned nothing yet has facts too, only fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperleaf.config import Definition
from hyperleaf.domain import Domain
from hyperleaf.errors import NotFittedYetError
from hyperleaf.mixture import Mixture
from hyperleaf.plots.view import base_point
from hyperleaf.storage.base import Query, Record, State
from hyperleaf.study import Study
from hyperleaf.study.accuracy import Accuracy, noise_of_outputs
from hyperleaf.study.stopping import Verdict, targets
from hyperleaf.surrogates.learned import Learned
from hyperleaf.surrogates.noise import Noise
from hyperleaf.surrogates.validation import leave_one_out

Values = NDArray[np.float64]
NUM_SAMPLES = 512  # for the effects of inputs: shares of variance to a few percent


@dataclass(frozen=True)
class Known:
    """One output as it was learned. `left_out` are its observations, each predicted from all others, in native units.

    `noise` is what is known of the noise; `effects` the share of the variation that involves each input, where there
    are three or more; `partition` the most probable division of the inputs, where the surrogate makes one; `target` the error
    that was wanted.
    """

    name: str
    unit: str
    model: Learned
    accuracy: Accuracy
    left_out: Mixture | None
    noise: Noise
    effects: Mapping[str, float]
    partition: Any
    target: float | None

    @property
    def label(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    @property
    def width(self) -> float:
        """Largest less smallest value seen."""
        return float(np.ptp(self.model.y))


@dataclass(frozen=True)
class Facts:
    """A study at one moment. `unit` are all queries in the unit cube, in the order of `record.queries`."""

    record: Record
    definition: Definition
    domain: Domain
    unit: Values
    known: tuple[Known, ...]
    history: tuple[tuple[int, Mapping[str, Accuracy]], ...]
    rules: tuple[Verdict, ...]
    seconds: Mapping[str, float]
    pool_size: int | None
    has_test: bool
    base: Values
    base_words: str
    success: Any  # unit-cube points to the probability that a run succeeds there; None where none failed

    @property
    def name(self) -> str:
        return self.record.name

    def in_state(self, *states: State) -> list[Query]:
        return [query for query in self.record.queries if query.state in states]

    @property
    def num_done(self) -> int:
        return len(self.in_state(State.DONE))

    @property
    def outputs_of(self) -> dict[int, Mapping[str, float]]:
        return {one.query_id: one.outputs for one in self.record.observations}


def gather(study: Study, at: Mapping[str, Any] | None = None) -> Facts:
    """The facts of a study; `at` is the point that slices go through, in native units."""
    try:
        accuracy = study.accuracy()  # also that of the last runs told, for which no query was chosen yet
        models = study.models
    except NotFittedYetError:
        accuracy, models = {}, {}
    record, status = study.record(), study.status()
    domain = study.domain
    places = [dict(place) for place in record.places().values()]
    unit = domain.to_unit(places) if places else np.zeros((0, domain.num_dims))
    noise = noise_of_outputs(study.definition, domain, record, accuracy)
    wanted = targets(study.definition, accuracy) if accuracy else {}
    known = []
    for name, output in study.definition.outputs.items():
        if name in models and name in accuracy:
            model = models[name]
            effects = _effects(model, domain, study.seed)
            left_out = leave_one_out(model.posterior)
            known.append(
                Known(
                    name,
                    output.unit,
                    model,
                    accuracy[name],
                    None if left_out is None else left_out.affine(model.scale.loc, model.scale.scale),
                    noise[name],
                    effects,
                    partition_of(model.posterior),
                    wanted.get(name),
                )
            )
    base, words = _base(domain, unit[[query.state == State.DONE for query in record.queries]], at)
    failed = any(query.state == State.FAILED for query in record.queries)
    return Facts(
        record,
        study.definition,
        domain,
        unit,
        tuple(known),
        tuple(study.history()),
        status.rules,
        dict(study.seconds),
        None if study.pool is None else len(study.pool),
        any(one.test_rmse is not None for one in accuracy.values()),
        base,
        words,
        (lambda rows: study.feasibility(domain.from_unit(rows))) if failed and study.definition.failures.avoid else None,
    )


def partition_of(posterior: Any) -> Any:
    """The partition of the most probable draw, or None where the surrogate does not divide the inputs."""
    from hyperleaf.kernels import Partition

    posterior = getattr(posterior, "best", posterior)  # of an average over trees, the likeliest
    kernel = getattr(posterior.draw(), "kernel", None) if hasattr(posterior, "draw") else None
    return kernel if isinstance(kernel, Partition) and np.shape(kernel.gates.normal)[0] > 0 else None


def _effects(model: Learned, domain: Domain, seed: int) -> dict[str, float]:
    """Total effects of the inputs on the mean (Jansen, 1999): E[(f(a) − f(a with one input from b))²] / 2 Var f.

    Nothing over one or two inputs, where one look tells.
    """
    if domain.num_axes <= 2:
        return {}
    points = domain.to_unit(domain.design(2 * NUM_SAMPLES, "sobol", seed))
    rng = np.random.default_rng(seed)
    points = points[rng.permutation(len(points))]
    a, b = points[:NUM_SAMPLES], points[NUM_SAMPLES:]
    here, moved, start = model.predict(a).mean(), {}, 0
    for name, axis in domain.axes.items():
        mixed = a.copy()
        columns = slice(start, start + axis.num_columns)
        mixed[:, columns] = b[:, columns]
        start += axis.num_columns
        moved[name] = model.predict(mixed).mean()
    spread = float(np.var(np.concatenate([here, *moved.values()])))
    if spread <= 0:
        return dict.fromkeys(moved, 0.0)
    return {name: min(float(np.mean((here - there) ** 2)) / (2 * spread), 1.0) for name, there in moved.items()}


def _base(domain: Domain, done: Values, at: Mapping[str, Any] | None) -> tuple[Values, str]:
    """Where slices cross: where the reader wants, else the centre, or the finished run nearest to it if that is forbidden."""
    if at is not None:
        return base_point(domain, at), "the point that was asked for"
    centre = base_point(domain, None)
    if len(done) and domain.constraints and not bool(domain.feasible_unit(centre[None])[0]):
        return done[int(np.argmin(np.sum((done - centre) ** 2, axis=1)))], "the finished run nearest to the centre"
    return centre, "the centre of the domain"
