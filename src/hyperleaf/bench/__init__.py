"""The paper's comparison, and room for a new row in it.

`tasks` are the experiments (`truths` the known functions, `tables` the files behind them) and `methods` what is compared on them;
`runs` carries out one of each, `campaign` all of them, and `outcomes` reads what they gave. `statistics` is what can be said of
one prediction, one curve or paired samples, `summaries` are tables of a campaign's results, `figures` its pictures, `report` both
in a folder, `commands` the command line. Names are imported on first use, so that a command line is not kept waiting.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyperleaf.bench.campaign import (
        Campaign as Campaign,
        make_campaign as make_campaign,
        preset as preset,
        run_campaign as run_campaign,
    )
    from hyperleaf.bench.methods import Method as Method
    from hyperleaf.bench.outcomes import (
        cross_scores as cross_scores,
        designs as designs,
        effects as effects,
        results as results,
    )
    from hyperleaf.bench.report import write_bench_report as write_bench_report
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
    "Campaign": "campaign",
    "Method": "methods",
    "Realisation": "tasks.base",
    "Task": "tasks.base",
    "compare": "summaries",
    "cross_scores": "outcomes",
    "designs": "outcomes",
    "effects": "outcomes",
    "fetch": "tables",
    "make_campaign": "campaign",
    "preset": "campaign",
    "rankings": "summaries",
    "results": "outcomes",
    "run_campaign": "campaign",
    "scores": "statistics",
    "significance": "summaries",
    "task": "tasks",
    "write_bench_report": "report",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hyperleaf.bench' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
