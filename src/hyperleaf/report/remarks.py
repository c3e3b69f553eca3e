"""Remarks about a study, with what to do about them: how far to trust it, what to look at again, whether to go on.

Pure functions of the facts. What a remark rests on are figures and fields, never the text of another message.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hyperleaf.report.facts import Facts, Known
from hyperleaf.report.words import count, number, percent, short_reason
from hyperleaf.storage.base import State
from hyperleaf.surrogates.noise import Noise

Level = Literal["good", "note", "warning"]
HONEST = (0.75, 1.25)  # calibration within which error bars are taken as they are
PROMISED, CLOSE = 0.9, 0.05  # coverage, and how far from it is near enough where there are many runs
FEW = 8  # runs below which leaving one out says little
MIN_ESS = 50.0
JITTER = 1e-6  # of the output's variance; below, rounding


@dataclass(frozen=True)
class Remark:
    """Something to know, and what to do about it ("" where nothing needs doing)."""

    level: Level
    text: str
    advice: str = ""


def about_output(facts: Facts, known: Known) -> list[Remark]:
    """Remarks about one output, what matters most first."""
    remarks = [*_target(known), *_calibration(facts, known), *_test(facts, known), *_progress(known)]
    if known.doubtful:  # nothing is ticked that rests on a mistake, and no advice is given from it
        plain = [replace(one, level="note" if one.level == "good" else one.level, advice="") for one in remarks]
        remarks = [_doubt(known.doubtful), *plain]
        remarks += [one for one in _noise(known) if one.level != "warning"]
    else:
        remarks += _noise(known)
    remarks += [*_aside(known), *_inference(known)]
    order = {"warning": 0, "note": 1, "good": 2}
    return sorted(remarks, key=lambda remark: order[remark.level])


def _doubt(doubted: tuple[int, ...]) -> Remark:
    which = f"Run {doubted[0]}" if len(doubted) == 1 else f"Runs {', '.join(map(str, doubted))}"
    do, count_ = ("does", "counts") if len(doubted) == 1 else ("do", "count")
    text = f"{which} {do} not go with the others, and {count_} in every figure here."
    return Remark("warning", text, 'Correct, void or confirm first: see "What to look at again".')


def _aside(known: Known) -> list[Remark]:
    """Which runs a robust output does not learn from."""
    if not known.aside:
        return []
    which, do, are, them = "Run", "does", "is", "it"
    if len(known.aside) > 1:
        which, do, are, them = "Runs", "do", "are", "them"
    text = f'{which} {", ".join(map(str, known.aside))} {do} not go with the others and {are} set aside: noise = "robust".'
    advice = f"Nothing is learned from {them} until other runs bear {them} out. If a value is wrong: hyperleaf correct "
    return [Remark("note", text, f"{advice}{known.aside[0]} {known.name}=….")]


def about_study(facts: Facts) -> list[Remark]:
    """Remarks about the runs."""
    remarks = []
    for one in facts.snapshot.suspects:
        advice = f"If it is wrong: {one.remedy}. If it is right: {one.confirmation}."
        remarks.append(Remark("warning", f"Look again at {one.words}", advice))
    failed = facts.in_state(State.FAILED)
    ended = facts.num_done + len(failed)
    if failed:
        (reason, times), *others = Counter(short_reason(query) for query in failed).most_common()
        why = f"always because: {reason}" if not others else f"most often ({times}) because: {reason}"
        avoid = facts.definition.failures.avoid
        advice = "The choice of queries keeps away from where runs failed; look into the cause if that region matters."
        remarks.append(
            Remark(
                "warning" if len(failed) > 0.2 * ended else "note",
                f"{len(failed)} of {count(ended, 'run')} failed ({100 * len(failed) / ended:.0f} %)"
                + (f", {why}" if len(failed) > 1 else f": {reason}"),
                advice if avoid and facts.num_done else "Look into the cause before more runs are spent.",
            )
        )
    elif ended:
        remarks.append(Remark("good", f"No run failed out of {ended}."))
    void = facts.in_state(State.VOID)
    if void:
        which = ", ".join(str(query.id) for query in void[:8]) + (" …" if len(void) > 8 else "")
        verb, them = ("was", "it") if len(void) == 1 else ("were", "them")
        text = f"{count(len(void), 'run')} {verb} voided ({which}): nothing is learned from {them}."
        advice = f'Why stands under "What was put right"; hyperleaf restore {void[0].id} takes it back.'
        remarks.append(Remark("note", text, advice))
    repeated = [query for query in facts.record.queries if query.attempt > 1]
    if repeated:
        remarks.append(Remark("note", f"{count(len(repeated), 'run')} had to be repeated."))
    if facts.known and facts.num_done < 3 * facts.domain.num_dims:
        text = f"There are only {count(facts.num_done, 'run')} for {count(facts.domain.num_axes, 'input')}."
        remarks.append(Remark("note", text, "Take all that is said here as a first impression, and go on."))
    return remarks


def _off(coverage: float, num: int) -> float:
    """How far the share of runs within their 90 % interval is from 90 %; 0 where chance alone may explain it.

    Runs that lie close together miss together, so that as few as there are, two standard errors are not much.
    """
    apart = coverage - PROMISED
    return apart if abs(apart) > max(CLOSE, 2 * np.sqrt(PROMISED * (1 - PROMISED) / max(num, 1))) else 0.0


def _calibration(facts: Facts, known: Known) -> list[Remark]:
    factor, coverage = known.accuracy.calibration, known.accuracy.loo_coverage
    num = len(known.model.y)
    if factor is None or coverage is None:
        return [Remark("note", "With fewer than three runs nothing checks the surrogate but itself.", "Make more runs.")]
    inside = f"{percent(coverage)} of the runs lie within the 90 % interval predicted from the others"
    if num < FEW:
        return [Remark("note", f"{num} runs are too few to judge its error bars; so far {inside}.", "Make a few more runs.")]
    low, high = HONEST
    if factor > 2:
        text = f"The surrogate is much too sure of itself: errors are {factor:.1f} times what it predicts; {inside}."
        advice = (
            f"Do not rely on its error bars: take them {factor:.1f} times as wide. More runs help, or another kind of "
            'surrogate; look for single runs that are far off in "Each run predicted from the others".'
        )
        return [Remark("warning", text, advice)]
    if factor > high:
        text = f"The surrogate is a little too sure of itself: errors are {factor:.1f} times what it predicts; {inside}."
        advice = (
            f"Take its error bars {factor:.1f} times as wide; the expected error in this report already is. A few more runs "
            "usually cure it."
        )
        return [Remark("note", text, advice)]
    if factor < low:
        text = f"The error bars are too wide: errors are only {factor:.2g} times what it predicts; {inside}."
        return [Remark("note", text, "They are on the safe side: it knows more than it says.")]
    off = _off(coverage, num)
    if off:
        most, few = ("wide", "narrow") if off > 0 else ("narrow", "wide")
        text = f"Errors are {factor:.2g} times what is predicted on the whole, but {inside}: most error bars are too {most}"
        return [Remark("note", f"{text}, a few too {few}.", "Read them as an average, not place by place.")]
    right = f"errors are {factor:.1f} times what it predicts; {inside}."
    if _judged_by_test(facts, known):
        return [Remark("note", f"At runs left out the error bars are right, but not on the test runs: {right}")]
    return [Remark("good", f"The error bars can be trusted: {right}")]


def _target(known: Known) -> list[Remark]:
    if known.target is None:
        return []
    wanted, reached = number(known.target, known.unit), number(known.accuracy.trusted_rmse, known.unit)
    if known.accuracy.trusted_rmse <= known.target:
        return [Remark("good", f"The error that was wanted, {wanted}, is reached: {reached} is expected.")]
    return [
        Remark("warning", f"The error that was wanted, {wanted}, is not reached: {reached} is expected.", "Go on with more runs.")
    ]


def _judged_by_test(facts: Facts, known: Known) -> str:
    """What test runs say of the error bars: too "narrow", too "wide", or "" if they are right or there are none."""
    rmse, coverage, trusted = known.accuracy.test_rmse, known.accuracy.test_coverage, known.accuracy.trusted_rmse
    if rmse is None or coverage is None:
        return ""
    off = _off(coverage, facts.snapshot.test_size or 1)
    if off < 0 or rmse > 2 * trusted:
        return "narrow"
    return "wide" if off > 0 or rmse < 0.5 * trusted else ""


def _test(facts: Facts, known: Known) -> list[Remark]:
    """The error on test runs against the one expected, and their coverage as it is: too wide is not right either."""
    rmse, coverage = known.accuracy.test_rmse, known.accuracy.test_coverage
    if rmse is None or coverage is None:
        return []
    ratio = rmse / known.accuracy.trusted_rmse if known.accuracy.trusted_rmse > 0 else np.inf
    text = f"On {count(facts.snapshot.test_size or 1, 'test run')}, which it has never seen, its error is "
    text += f"{number(rmse, known.unit)}, {ratio:.2g} times what it expects; {percent(coverage)} lie within their 90 % interval"
    judged = _judged_by_test(facts, known)
    if judged == "narrow":
        advice = "Something in the test runs is not in what was asked: go on, or ask where they differ."
        return [Remark("warning", f"{text}: its error bars are too narrow there.", advice)]
    if judged == "wide":
        return [Remark("note", f"{text}: its error bars are too wide there.", "They are on the safe side.")]
    return [Remark("good", f"{text}.")]


def _progress(known: Known) -> list[Remark]:
    """Whether more runs still help, from the last third of the curve."""
    curve = [(num, one.trusted_rmse) for num, one in known.curve]
    if len(curve) < 6:
        return []
    num, now = curve[-1]
    earlier, before = curve[-1 - len(curve) // 3]
    if now <= 0 or before <= 0:
        return []
    change = f"from {number(before, known.unit)} to {number(now, known.unit)}"
    text = f"Over the last {num - earlier} runs the expected error went {change}"
    if now < 0.8 * before:
        return [Remark("note", f"{text}: it is still falling.", "More runs would make it better still.")]
    if now > 1.25 * before:
        advice = "Something new was found; go on until it falls again."
        return [Remark("note", f"{text}: it rose, as it does when a run surprises.", advice)]
    return [Remark("good", f"{text}: it has levelled off.", "More runs of the same kind would change little.")]


def _noise(known: Known) -> list[Remark]:
    """Never a tick: whether noise is there, and how much, only repeated runs can tell."""
    noise = known.noise
    remarks = [Remark("warning", _sentence(text), _advice(noise)) for text in noise.warnings]
    if noise.kind == "known":
        remarks.append(Remark("note", f"The noise was given: a standard deviation of {number(noise.std, known.unit)}."))
    elif noise.kind == "none":
        remarks.append(Remark("note", f"Runs are taken to repeat exactly; noise: {noise.words}."))
    else:
        remarks.append(Remark("note", f"Noise of {known.name} (one standard deviation): {noise.words}."))
    return remarks + ([Remark("note", f"{noise.repeated}.")] if noise.repeats else [])


def _advice(noise: Noise) -> str:
    """What helps to decide, where nothing was repeated."""
    if noise.repeats is not None:
        return ""
    return "If it does not, repeat a few runs: if they agree all the same, the surrogate has missed what drives the output."


def _inference(known: Known) -> list[Remark]:
    """What the method that learned the surrogate has to say: its figures in plain words, then its messages."""
    found = known.model.posterior.diagnostics
    remarks = []
    sizes = [size for size in found.ess_bulk.values() if np.isfinite(size)]
    if sizes and max(sizes) < MIN_ESS and found.num_draws > 1:
        remarks.append(
            Remark(
                "note",
                f"The error bars rest on few opinions: of {found.num_draws} candidate surrogates only about {max(sizes):.0f} "
                "count.",
                "They may change a little with the seed. More particles or draws make them steadier.",
            )
        )
    if found.failed_draws:
        text = f"{found.failed_draws} of {found.num_draws} candidate surrogates broke down numerically and were left out."
        remarks.append(Remark("note", text, "Look for runs at the same point with different results."))
    elif found.jitter > JITTER:
        text = "Some runs lie so close together that they nearly repeat each other; the arithmetic was steadied a little."
        remarks.append(Remark("note", text, f"Harmless, unless {known.name} is wanted to better than {_jitter(known)}."))
    if found.divergences:
        text = f"The sampler lost its way {count(found.divergences, 'time')}, so rare possibilities may be missing."
        remarks.append(Remark("note", text, "Raise target_acceptance, or use SMC."))
    again = known.model.rescaled
    if again is not None:
        unit = f" {known.unit}" if known.unit else ""
        text = f"At {again.num_observations} runs {known.name} turned out to spread by {again.scale:.3g}{unit}"
        text += f"; the first had suggested {again.before:.3g}{unit}."
        remarks.append(Remark("note", text, "Nothing to do: what had been learned was carried over to the new scale."))
    remarks += [Remark("note", _sentence(text)) for text in found.messages]
    guard = found.extra.get("guard")
    return remarks if guard is None else [*remarks, Remark("good" if guard.agrees else "note", guard.words)]


def _jitter(known: Known) -> str:
    return number(float(np.sqrt(known.model.posterior.diagnostics.jitter)) * known.model.scale.scale, known.unit)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
