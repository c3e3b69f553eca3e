"""What a format is, what may be asked of it, and where it takes what it writes from.

A format is a file in this room with a `FORMAT`: the endings it answers to, and a function that writes. Nothing else has to be
told of it. Tables come from a study alone; surrogates from a study, a fitted estimator, or what `load_model` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperleaf.errors import InputError, NotFittedYetError

if TYPE_CHECKING:
    from hyperleaf.exports.ingredients import Ingredients
    from hyperleaf.study import Study
    from hyperleaf.study.accuracy import Accuracy
    from hyperleaf.study.files import Model


@dataclass(frozen=True)
class Wishes:
    """What a file should say: of which outputs (None: all), of a new observation in place of the latent value, also with some
    quantiles and with derivatives by the real inputs, and with as few draws as keep mean and std to within `tolerance` of the
    std."""

    outputs: tuple[str, ...] | None = None
    noisy: bool = False
    quantiles: tuple[float, ...] = ()
    tolerance: float | None = None
    derivatives: bool = False

    @classmethod
    def of(
        cls,
        output: str | Sequence[str] | None = None,
        noisy: bool = False,
        quantiles: Sequence[float] = (),
        tolerance: float | None = None,
        derivatives: bool = False,
    ) -> Wishes:
        for q in quantiles:
            if isinstance(q, bool) or not isinstance(q, int | float) or not 0 < q < 1:
                raise InputError(f"a quantile must lie between 0 and 1; got {q!r}. Divide percentages by 100.")
        if tolerance is not None and not 0 < tolerance < 1:
            raise InputError(f"tolerance is a share of the standard deviation, between 0 and 1; got {tolerance!r}. Try 0.01.")
        named = None if output is None else (output,) if isinstance(output, str) else tuple(output)
        return cls(named, bool(noisy), tuple(sorted(float(q) for q in quantiles)), tolerance, bool(derivatives))

    @property
    def are_plain(self) -> bool:
        return not self.noisy and not self.quantiles and self.tolerance is None and not self.derivatives

    def must_be_plain(self, what: str) -> None:
        """Of a format that has no predictions in it: what was asked for would be left out in silence."""
        if not self.are_plain:
            raise InputError(f"{what}; got one of noisy, quantiles, tolerance and derivatives. Leave them out.")


@dataclass(frozen=True)
class Format:
    """`write(path, source, wishes)` writes exactly `path`, and perhaps files beside it, and says what it was."""

    endings: tuple[str, ...]
    title: str
    write: Callable[[Path, Source, Wishes], dict[str, Any]]
    learns: bool = True  # whether it writes what was learned


class Source:
    """What is exported: a study, a fitted estimator, what `load_model` reads, or several of these by the names of outputs."""

    def __init__(self, held: Any) -> None:
        self.held = held

    @property
    def study(self) -> Study:
        from hyperleaf.study import Study

        if not isinstance(self.held, Study):
            raise InputError(f"a table of runs and a posterior are those of a study; got {type(self.held).__name__}.")
        return self.held

    @cached_property
    def models(self) -> Mapping[str, Model]:
        """What was learned, by the names of the outputs."""
        return models_of(self.held)

    def chosen(self, wishes: Wishes) -> dict[str, Model]:
        for name in wishes.outputs or ():
            if name not in self.models:
                raise InputError(f"output must be one of {list(self.models)}; got {name!r}.")
        return {name: self.models[name] for name in wishes.outputs or self.models}

    def one(self, wishes: Wishes) -> tuple[str, Model]:
        """Of a format that holds a single output."""
        chosen = self.chosen(wishes)
        if len(chosen) > 1:
            raise InputError(f"this file holds one output, and there are several; say which, one of {list(chosen)}.")
        return next(iter(chosen.items()))

    @cached_property
    def accuracy(self) -> Mapping[str, Accuracy]:
        from hyperleaf.exports.certificate import measured
        from hyperleaf.study import Study

        return self.held.accuracy() if isinstance(self.held, Study) else measured(self.models)

    def ingredients(self, wishes: Wishes) -> Ingredients:
        """All that formats write out of what was learned, thinned if that was asked for, with its certificate."""
        from hyperleaf.exports.certificate import certified
        from hyperleaf.exports.ingredients import Ingredients, axes_of, check_slopes, part_of
        from hyperleaf.exports.thinning import thinned

        chosen = self.chosen(wishes)
        domain = next(iter(chosen.values())).domain
        if any(model.domain != domain for model in chosen.values()):
            raise InputError("outputs that go in one file must have the same inputs; these differ. Export them one by one.")
        if wishes.noisy:
            _check_noise(chosen)
        whole = [part_of(model) for model in chosen.values()]
        losses = [None if wishes.tolerance is None else thinned(part, wishes.tolerance, domain.snap) for part in whole]
        parts = tuple(part if loss is None else loss.part for part, loss in zip(whole, losses, strict=True))
        certificate = certified(chosen, self.accuracy, parts, losses, wishes)
        axes = axes_of(domain)
        if wishes.derivatives:
            check_slopes(axes, parts)
        return Ingredients(axes, parts, wishes.noisy, wishes.quantiles, wishes.derivatives, certificate)


def _check_noise(chosen: Mapping[str, Model]) -> None:
    """Noise by leaf beside noise that was given is of no form that is written out."""
    for name, model in chosen.items():
        posterior = model.learned.posterior
        if posterior.data.noise is not None and np.ndim(posterior.predict(posterior.data.x[:1]).noise) > 1:
            raise InputError(
                f"{name} has noise by leaf beside noise that was given with its data, for which this format has no form. Export "
                "without noisy, or keep the surrogate as .npz."
            )


def models_of(held: Any) -> dict[str, Model]:
    """What was learned, by the names of the outputs."""
    from hyperleaf.study import Study
    from hyperleaf.study.files import Model

    if isinstance(held, Mapping) and held:
        return {str(name): _one(one, str(name)) for name, one in held.items()}
    if isinstance(held, Study):
        units = held.definition.outputs
        return {name: Model(one, held.domain, name, units[name].unit) for name, one in held.models.items()}
    one = _one(held)
    return {one.output: one}


def _one(held: Any, name: str = "") -> Model:
    from hyperleaf.study.files import Model

    if isinstance(held, Model):
        return Model(held.learned, held.domain, name or held.output, held.unit)
    if hasattr(held, "learned_"):  # an estimator: its room is above this one
        return Model(held.learned_, held.domain_, name or "y")
    if hasattr(held, "fit"):
        raise NotFittedYetError(f"this needs a fitted estimator; this {type(held).__name__} has seen no data. Call fit.")
    raise InputError(f"this needs a study, a fitted estimator, or what load_model reads; got {type(held).__name__}.")
