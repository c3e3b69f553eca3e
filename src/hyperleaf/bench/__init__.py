"""The paper's comparison, and room for a new row in it.

`tasks` are the experiments (`truths` the known functions, `tables` the files behind them); `statistics` is what can be said of
one prediction, one curve or paired samples, and `summaries` are tables of a campaign's results. Names are imported on first use,
so that a command line is not kept waiting.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperleaf.bench.statistics import scores as scores
    from hyperleaf.bench.summaries import (
        compare as compare,
        rankings as rankings,
        significance as significance,
    )
    from hyperleaf.bench.tables import fetch as fetch
    from hyperleaf.bench.tasks import (
        Realisation as Realisation,
        Task as Task,
        task as task,
    )

_HOME = {
    "Realisation": "tasks",
    "Task": "tasks",
    "compare": "summaries",
    "fetch": "tables",
    "rankings": "summaries",
    "scores": "statistics",
    "significance": "summaries",
    "task": "tasks",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hyperleaf.bench' has no attribute {name!r}")
    return getattr(import_module(f"hyperleaf.bench.{_HOME[name]}"), name)
