"""What there is to say about a study, in words an engineer understands: a headline, and remarks with what to do about them.

Pure functions of the facts; plain text, which the page escapes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hyperleaf.report.facts import Facts, Known
from hyperleaf.storage.base import Query, State
from hyperleaf.surrogates.noise import Noise

Level = Literal["good", "note", "warning"]
HONEST = (0.75, 1.25)  # calibration within which error bars are taken as they are
FEW = 8  # runs below which leaving one out says little
MIN_ESS = 50.0
JITTER = 1e-6  # of the output's variance; below, rounding


@dataclass(frozen=True)
class Remark:
    """Something to know, and what to do about it ("" where nothing needs doing)."""

    level: Level
    text: str
    advice: str = ""


def number(value: float | None, unit: str = "") -> str:
    """Three digits and the unit."""
    if value is None or not np.isfinite(value):
        return "–"
    shown = f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e").replace("-", "−")
    return f"{shown} {unit}" if unit else shown


def duration(seconds: float) -> str:
    """As a person says it."""
    if seconds < 0.095:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} min"
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02d} min" if hours < 48 else f"{hours / 24:.1f} days"


def count(num: int, noun: str) -> str:
    return f"{num} {noun}{'' if num == 1 else 's'}"


def share_of_range(known: Known) -> str:
    """The expected error as a share of the values seen, in brackets; nothing where they are all the same."""
    return f" ({100 * known.accuracy.trusted_rmse / known.width:.2g} % of the range seen)" if known.width > 0 else ""


def headline(facts: Facts) -> str:
    """What was learned, in a sentence."""
    failed, open_ = len(facts.in_state(State.FAILED)), len(facts.in_state(State.RUNNING, State.WAITING))
    if not facts.record.queries:
        return "Nothing has been run yet."
    if not facts.known:
        if failed and not open_:
            return f"Nothing has been learned: {'the only run' if failed == 1 else f'all {failed} runs'} failed."
        rest = f", {count(failed, 'run')} failed" if failed else ""
        out = f"{count(open_, 'run')} {'is' if open_ == 1 else 'are'} open"
        return f"Nothing has been learned yet: no run has finished, {out}{rest}."
    parts = [f"{one.name} to about {number(one.accuracy.trusted_rmse, one.unit)}{share_of_range(one)}" for one in facts.known]
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
    return f"From {count(facts.num_done, 'run')} the surrogate knows {listed}."


def why_stopped(facts: Facts) -> str:
    """The stop rule that is met, or how far the nearest one is."""
    open_ = len(facts.in_state(State.RUNNING, State.WAITING))
    still = f" {count(open_, 'run')} {'is' if open_ == 1 else 'are'} still open." if open_ else ""
    met = next((rule for rule in facts.rules if rule.met), None)
    if met is not None:
        return f"The campaign stopped: {met.words}.{still}"
    if not facts.record.queries:
        return "Ask for a first query, or start the campaign with hyperleaf run."
    ahead = max(facts.rules, key=lambda rule: rule.progress, default=None)
    if ahead is not None:
        return f"No stop rule is met yet: {ahead.words}.{still}"
    return f"The study has no stop rule; it goes on for as long as runs are asked for.{still}"


def about_output(facts: Facts, known: Known) -> list[Remark]:
    """Remarks about one output, what matters most first."""
    remarks = [*_target(known), *_calibration(known), *_test(known), *_progress(facts, known), *_noise(known), *_inference(known)]
    order = {"warning": 0, "note": 1, "good": 2}
    return sorted(remarks, key=lambda remark: order[remark.level])


def about_study(facts: Facts) -> list[Remark]:
    """Remarks about the runs."""
    remarks = [
        Remark("warning", f"Look again at {one.words}", f"If it is wrong: {one.remedy}.") for one in facts.snapshot.suspects
    ]
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
    repeated = [query for query in facts.record.queries if query.attempt > 1]
    if repeated:
        remarks.append(Remark("note", f"{count(len(repeated), 'run')} had to be repeated."))
    if facts.known and facts.num_done < 3 * facts.domain.num_dims:
        text = f"There are only {count(facts.num_done, 'run')} for {count(facts.domain.num_axes, 'input')}."
        remarks.append(Remark("note", text, "Take all that is said here as a first impression, and go on."))
    return remarks


def short_reason(query: Query) -> str:
    """The first line of why a run failed."""
    lines = query.reason.strip().splitlines() or ["no reason was given"]
    return lines[0] if len(lines[0]) <= 160 else lines[0][:157] + "…"


def _calibration(known: Known) -> list[Remark]:
    factor, coverage = known.accuracy.calibration, known.accuracy.loo_coverage
    num = len(known.model.y)
    if factor is None or coverage is None:
        return [Remark("note", "With fewer than three runs nothing checks the surrogate but itself.", "Make more runs.")]
    inside = f"{100 * coverage:.0f} % of the runs lie within the 90 % interval predicted from the others"
    if num < FEW:
        return [Remark("note", f"{num} runs are too few to judge its error bars; so far {inside}.", "Make a few more runs.")]
    low, high = HONEST
    if factor > 2:
        return [
            Remark(
                "warning",
                f"The surrogate is much too sure of itself: errors are {factor:.1f} times what it predicts; {inside}.",
                f"Do not rely on its error bars: take them {factor:.1f} times as wide. More runs help, or another kind of "
                'surrogate; look for single runs that are far off in "Each run predicted from the others".',
            )
        ]
    if factor > high:
        return [
            Remark(
                "note",
                f"The surrogate is a little too sure of itself: errors are {factor:.1f} times what it predicts; {inside}.",
                f"Take its error bars {factor:.1f} times as wide; the expected error in this report already is. A few more runs "
                "usually cure it.",
            )
        ]
    if factor < low:
        text = f"The surrogate is cautious: errors are {factor:.2g} times what it predicts; {inside}."
        return [Remark("good", text, "Its error bars are on the safe side.")]
    return [Remark("good", f"The error bars can be trusted: errors are {factor:.2g} times what it predicts; {inside}.")]


def _target(known: Known) -> list[Remark]:
    if known.target is None:
        return []
    wanted, reached = number(known.target, known.unit), number(known.accuracy.trusted_rmse, known.unit)
    if known.accuracy.trusted_rmse <= known.target:
        return [Remark("good", f"The error that was wanted, {wanted}, is reached: {reached} is expected.")]
    return [
        Remark("warning", f"The error that was wanted, {wanted}, is not reached: {reached} is expected.", "Go on with more runs.")
    ]


def _test(known: Known) -> list[Remark]:
    rmse, coverage = known.accuracy.test_rmse, known.accuracy.test_coverage
    if rmse is None or coverage is None:
        return []
    ratio = rmse / known.accuracy.trusted_rmse if known.accuracy.trusted_rmse > 0 else np.inf
    text = f"On the test runs, which it has never seen, its error is {number(rmse, known.unit)}"
    text += f", {ratio:.2g} times what it expects; {100 * coverage:.0f} % lie within their 90 % interval."
    if ratio > 2:
        return [Remark("warning", text, "Something in the test runs is not in what was asked: go on, or ask where they differ.")]
    return [Remark("good", text)]


def _progress(facts: Facts, known: Known) -> list[Remark]:
    """Whether more runs still help, from the last third of the curve."""
    curve = [(num, values[known.name].trusted_rmse) for num, values in facts.history if known.name in values]
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
    """Never a tick for noise that was learned: whether it is there, only repeated runs can tell."""
    noise = known.noise
    remarks = [Remark("warning", _sentence(text), _advice(noise)) for text in noise.warnings]
    if noise.kind == "known":
        remarks.append(Remark("good", f"The noise was given: a standard deviation of {number(noise.std, known.unit)}."))
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
    """What the method that learned the surrogate has to say, with its words replaced where a plainer one exists."""
    found = known.model.diagnostics
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
    for note in known.model.notes:
        text = _sentence(note)
        if again is not None and note == again.note:
            unit = f" {known.unit}" if known.unit else ""
            found_, first = f"{again.scale:.3g}{unit}", f"{again.before:.3g}{unit}"
            begin = f"At {again.num_observations} runs {known.name} turned out to spread by {found_}"
            text = f"{begin}; the first had suggested {first}."
        remarks.append(Remark("note", text, "Nothing to do: what had been learned was carried over to the new scale."))
    said = [text for text in found.messages if text not in known.model.notes and not text.endswith("carry no weight.")]
    remarks += [Remark("good" if text.startswith("Guard") and "agrees" in text else "note", _sentence(text)) for text in said]
    return remarks


def _jitter(known: Known) -> str:
    return number(float(np.sqrt(known.model.diagnostics.jitter)) * known.model.scale.scale, known.unit)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
