"""Campaigns: `Study` asks and is told; `run` does both with a simulator. The parts: what a study is (`defining`), its record
(`reader`), the next queries (`asking`, `choosing`, `feasibility`), what runs gave (`telling`, `corrections`), what was learned
(`insight`, `learning`), how good it is (`accuracy`), when it is enough (`stopping`), who is at what (`owners`)."""

from hyperleaf.errors import ExhaustedError
from hyperleaf.study.accuracy import Accuracy
from hyperleaf.study.files import Model, load_model
from hyperleaf.study.snapshot import Snapshot, Status
from hyperleaf.study.stopping import Verdict
from hyperleaf.study.study import Study

__all__ = ["Accuracy", "ExhaustedError", "Model", "Snapshot", "Status", "Study", "Verdict", "load_model"]
