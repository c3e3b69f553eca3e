"""A study behind gest-api, the generator standard of Xopt, libEnsemble and optimas: they run it, hyperleaf says what to run.

`suggest` is `ask` and `ingest` is `tell`. Objectives are of the kind EXPLORE: their surrogates are to be good everywhere, and
nothing is minimised. The `_id` of a point is the number of its query, so a store may outlive the process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real as Number
from typing import Any

from hyperleaf.adapters import missing
from hyperleaf.checks import whole_number
from hyperleaf.domain import Choice, Domain, Real
from hyperleaf.errors import InputError
from hyperleaf.storage import open_storage
from hyperleaf.study import Study

try:
    from gest_api import Generator
    from gest_api.vocs import VOCS, ContextualVariable, ContinuousVariable, DiscreteVariable, ExploreObjective
except ModuleNotFoundError as error:
    raise missing("gest_api", "gest") from error

ID = "_id"


class Explorer(Generator):
    """A generator that explores. `options` are those of `Study.create`: surrogate, acquisition, design, seed, pool, stop …

    `storage` is where the study lives ("sqlite:///runs.db"), in memory if None is given; a study of that `name` in it goes on
    where it stood. `batch` is how many points `suggest` gives where it is not told.
    """

    returns_id = True

    def __init__(self, vocs: VOCS, *, storage: Any = None, name: str = "gest", batch: int = 1, **options: Any) -> None:
        super().__init__(vocs)
        self.vocs, self.batch = vocs, whole_number("batch", batch)
        self._constants = {name: one.value for name, one in vocs.constants.items()}
        domain, store = domain_of(vocs), open_storage(storage)
        if name in store.study_names():
            self.study = Study.load(name, store)
            self._check_same(domain)
        else:
            self.study = Study.create(name, domain, list(vocs.objectives), storage=store, **options)

    def _validate_vocs(self, vocs: VOCS) -> None:
        kinds = {name: type(one).__name__ for name, one in vocs.objectives.items()}
        if not kinds or any(not isinstance(one, ExploreObjective) for one in vocs.objectives.values()):
            raise InputError(
                f'hyperleaf explores: every objective must be "EXPLORE", and there must be one; got {kinds or "none"}.'
            )
        if vocs.constraints:
            raise InputError(
                f"constraints are not taken through gest-api; got {list(vocs.constraints)}. Use a Study with limits, which knows "
                "how to begin safely, or declare them as observables."
            )
        domain_of(vocs)

    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """So many points, with constants and `_id`; those that were lost and wait to be repeated come first."""
        count = self.batch if num_points is None else whole_number("num_points", num_points)
        return [{**query.point, **self._constants, ID: query.id} for query in self.study.ask(count)]

    def ingest(self, results: list[dict[str, Any]]) -> None:
        """Outcomes of suggested points by their `_id`, and finished runs of others without one. A NaN is a run that failed.

        All are checked before any is kept.
        """
        known = {query.id: query for query in self.study.record().queries}
        suggested: list[tuple[int, dict[str, Any]]] = []
        others: list[dict[str, Any]] = []
        for result in results:
            missing = [one for one in (*self.vocs.variables, *self.vocs.objectives) if one not in result]
            if missing:
                raise InputError(f"a result holds every variable and objective; {result!r} lacks {missing}. Add them.")
            number = _number(result.get(ID))
            if number is not None and number not in known:
                raise InputError(f"{ID} must be one that was suggested; got {number}. Leave it out for points from elsewhere.")
            if number is None:
                others.append(result)
            else:
                suggested.append((number, result))
        for number, result in suggested:
            outputs = {name: float(result[name]) for name in self.vocs.objectives}
            if not all(map(math.isfinite, outputs.values())):
                self.study.tell_failed(number, f"no finite outcome: {outputs}", retry=False)
                continue
            point = known[number].point
            moved = {name: result[name] for name in self.vocs.variables if result[name] != point[name]}
            self.study.tell(number, {**outputs, **moved})
        rows = [{name: row[name] for name in (*self.vocs.variables, *self.vocs.objectives)} for row in others]
        finite = [row for row in rows if all(math.isfinite(row[name]) for name in self.vocs.objectives)]
        if finite:
            self.study.add(finite, note="ingested")

    def finalize(self) -> None:
        """What was learned is kept in the store, so that whoever loads the study need not learn it again."""
        self.study.save()

    def __deepcopy__(self, memo: Any) -> Explorer:
        """Itself: a copy would be a second owner of the same study. Xopt copies the generator that it is given."""
        return self

    def _check_same(self, domain: Domain) -> None:
        if self.study.domain != domain or set(self.study.outputs) != set(self.vocs.objectives):
            raise InputError(
                f"the store holds a study {self.study.name!r} of other variables or objectives: {self.study.domain!r}, "
                f"{self.study.outputs}. Give another name=."
            )


def domain_of(vocs: VOCS) -> Domain:
    """The variables as axes: continuous ones between their bounds, discrete ones as a choice among their values."""
    axes: dict[str, Any] = {}
    for name, one in vocs.variables.items():
        if isinstance(one, DiscreteVariable):
            values = list(one.values)
            axes[name] = Choice(*(sorted(values) if all(isinstance(v, Number) for v in values) else sorted(values, key=str)))
        elif (
            isinstance(one, ContinuousVariable)
            and not isinstance(one, ContextualVariable)
            and all(map(math.isfinite, one.domain))
        ):
            axes[name] = Real(*one.domain)
        else:
            raise InputError(
                f"a variable is continuous with finite bounds, or discrete; {name!r} is {type(one).__name__}. What cannot be "
                "set is an observable."
            )
    return Domain(axes)


def _number(given: Any) -> int | None:
    """An `_id` as a table may hold it: NaN or nothing where there is none, a float where some rows have none."""
    if given is None or (isinstance(given, float) and math.isnan(given)):
        return None
    if isinstance(given, Mapping | str) or int(given) != given:
        raise InputError(f"{ID} is the whole number that was suggested; got {given!r}. Leave it out for points from elsewhere.")
    return int(given)
