"""When it is enough: rules that look at a study and say why to stop, or how far it still is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyperleaf.config import Definition
from hyperleaf.study.accuracy import Accuracy

STAGNATION = 0.9  # an expected error that fell to less than this share counts as progress
WARM_UP = 5  # finished runs beyond the first design before an error is believed small: five flat outputs look perfect


@dataclass(frozen=True)
class View:
    """What rules look at: finished runs, failures in a row, seconds of this run, and the accuracy after each epoch so far."""

    definition: Definition
    num_done: int
    failures_in_a_row: int = 0
    seconds: float = 0.0
    history: Sequence[tuple[int, Mapping[str, Accuracy]]] = ()


@dataclass(frozen=True)
class Verdict:
    """A rule, how far it is (a share, 1 when met), and in words how it stands."""

    rule: str
    progress: float
    words: str

    @property
    def met(self) -> bool:
        return self.progress >= 1.0


def verdicts(view: View) -> list[Verdict]:
    """Of every rule that the study has, in the order in which they are asked."""
    stop = view.definition.stop
    found = []
    if stop.queries is not None:
        found.append(Verdict("queries", view.num_done / stop.queries, f"{view.num_done} of {stop.queries} runs finished"))
    if stop.time is not None:
        found.append(Verdict("time", view.seconds / stop.time, f"{view.seconds:.0f} of {stop.time:.0f} seconds passed"))
    if stop.rmse is not None:
        found.append(_error_rule(view))
    if stop.stagnation is not None:
        found.append(_stagnation_rule(view, stop.stagnation))
    limit = view.definition.failures.limit
    if view.failures_in_a_row:
        last = "run" if view.failures_in_a_row == 1 else f"{view.failures_in_a_row} runs"
        words = f"the last {last} failed (limit {limit})"
        found.append(Verdict("failures", view.failures_in_a_row / limit, words))
    return found


def targets(definition: Definition, accuracy: Mapping[str, Accuracy]) -> dict[str, float]:
    """The error that is wanted of each output, in native units."""
    wanted = definition.stop.rmse
    if wanted is None:
        return {}
    if isinstance(wanted, Mapping):
        return dict(wanted)
    return {name: wanted * one.scale for name, one in accuracy.items()}


def _error_rule(view: View) -> Verdict:
    enough = view.definition.design.size + WARM_UP
    if not view.history or view.history[-1][0] < enough:  # of what was learned: runs may have been added since
        return Verdict("rmse", 0.0, f"an error is judged from {enough} finished runs on")
    accuracy = view.history[-1][1]
    shares, words = [], []
    for name, target in targets(view.definition, accuracy).items():
        trusted = accuracy[name].trusted_rmse
        shares.append(1.0 if trusted <= target else min(target / trusted, 0.999))
        words.append(f"expected error of {name} {trusted:.3g}, wanted {target:.3g}")
    return Verdict("rmse", min(shares), "; ".join(words))


def _stagnation_rule(view: View, patience: int) -> Verdict:
    """Counts finished runs since the trusted error of any output last fell by a tenth below its best before."""
    best: dict[str, float] = {}
    last_progress = 0
    for num, accuracy in view.history:
        for name, one in accuracy.items():
            if name not in best or one.trusted_rmse < STAGNATION * best[name]:
                best[name], last_progress = one.trusted_rmse, num
    idle = view.history[-1][0] - last_progress if view.history else 0
    return Verdict("stagnation", idle / patience, f"{idle} runs without progress (limit {patience})")
