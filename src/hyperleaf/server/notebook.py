"""`study.live()`: a study in a notebook, drawn again while it goes on; nothing is learned for it and nothing written.

A thread looks at the store and draws what the study has learned so far into one output of the notebook. What it shows is what was
learned by whoever runs the study here; of a study that another process runs it shows the runs and how accuracy grew.
"""

from __future__ import annotations

import base64
import io
import logging
import sys
import threading
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from hyperleaf.checks import whole_number
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.study import Study, portrait

if TYPE_CHECKING:
    from hyperleaf.study.snapshot import Snapshot

log = logging.getLogger(__name__)


class Live:
    """What is being shown. `stop()` ends it; it ends by itself with the study's last query."""

    def __init__(self, study: Study, every: float, resolution: int, display: Any) -> None:
        self._study, self._every, self._resolution = study, every, resolution
        self._looks = Study(study.storage, study.name, study.folder)  # the other one may be learning just now
        self._ended = threading.Event()
        self._drawn: Any = None
        self._handle = display(_html(self.html()), raw=True, display_id=True)
        self._thread = threading.Thread(target=self._follow, name="hyperleaf-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Draw once more, and no more after that."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join(10)
            self.update()

    def update(self) -> bool:
        """Draw it if anything has changed; whether that was so."""
        snapshot = self._snapshot()
        now = snapshot.record.version, len(snapshot.history), id(next(iter(snapshot.models.values()), None))
        if now == self._drawn:
            return False
        self._drawn = now
        self._handle.update(_html(self.html(snapshot)), raw=True)
        return True

    def html(self, snapshot: Snapshot | None = None) -> str:
        """Figures and words, as they stand now."""
        snapshot = snapshot or self._snapshot()
        pictures = [*self._maps(snapshot), *_curve(snapshot)]
        shown = "".join(f'<img alt="{escape(words)}" src="data:image/png;base64,{data}">' for words, data in pictures)
        return f"{portrait.as_html(self._looks)}<div>{shown}</div>"

    def _snapshot(self) -> Snapshot:
        """With what the study beside us has learned by now."""
        snapshot = self._looks.snapshot()
        learner = self._study._insight.__dict__.get("learner")
        known = None if learner is None else learner._ahead or learner._known
        return snapshot if known is None or not known.models else replace(snapshot, models=known.models)

    def _maps(self, snapshot: Snapshot) -> list[tuple[str, str]]:
        from hyperleaf.plots import posterior_maps

        if not snapshot.models:
            return []
        drawn = [
            (name, posterior_maps(snapshot, output=name, resolution=self._resolution, backend="matplotlib"))
            for name in snapshot.definition.outputs
        ]
        return [(f"what was learned of {name}", _png(figure)) for name, figure in drawn]

    def _follow(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self.update()
            except HyperleafError as error:  # a store that does not answer just now
                log.info("%s", error)
            except Exception:  # of whatever kind: looking must not end the run that is looked at
                log.exception("a figure could not be drawn")

    def __repr__(self) -> str:
        return f"<Live {self._study.name!r}, {'ended' if self._ended.is_set() else 'until stop()'}>"


def live(study: Study, *, every: float = 2.0, resolution: int = 41) -> Any:
    """Show a study in a notebook, and draw it again at most `every` so many seconds while it goes on: `study.live()`, and then
    `study.run(…)` in the same cell or another. In a terminal it prints how the study stands, and that is all."""
    whole_number("resolution", resolution, 2)
    if not isinstance(every, int | float) or isinstance(every, bool) or not 0.1 <= every < 86400:
        raise InputError(f"every must be seconds, 0.1 or more; got {every!r}.")
    display = _display()
    if display is None:
        sys.stdout.write(f"{portrait.as_text(study)}\n")
        return None
    return Live(study, float(every), resolution, display)


def _display() -> Any:
    """How a notebook shows things; None outside of one."""
    if "IPython" not in sys.modules:
        return None
    from IPython import display, get_ipython

    shell = get_ipython()
    return display.display if shell is not None and hasattr(shell, "kernel") else None


def _html(text: str) -> dict[str, str]:
    return {"text/html": text, "text/plain": "a study, as HTML"}


def _curve(snapshot: Snapshot) -> list[tuple[str, str]]:
    """The expected error of each output after each run."""
    if len(snapshot.history) < 2:
        return []
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.0), layout="constrained")
    axes = figure.subplots()
    for name, output in snapshot.definition.outputs.items():
        rows = [(num, values[name].trusted_rmse) for num, values in snapshot.history if name in values]
        nums, errors = np.array(rows, dtype=np.float64).T
        axes.plot(nums, errors, marker=".", label=f"{name} [{output.unit}]" if output.unit else name)
    axes.set(xlabel="finished runs", ylabel="expected error", yscale="log")
    axes.legend(frameon=False)
    return [("how accuracy grew", _png(figure))]


def _png(figure: Any) -> str:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=80)
    return base64.b64encode(content.getvalue()).decode()
