"""What a server gives as files: the table of runs, the surrogate, the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hyperleaf.server.operations import Call
from hyperleaf.server.studies import Warm
from hyperleaf.study import tables


def export_csv(warm: Warm, call: Call) -> tuple[bytes, str]:
    found = warm.snapshot()
    text = tables.csv_of(found.record, found.domain.names, tuple(found.definition.outputs))
    return text.encode(), "runs.csv"


def export_model(warm: Warm, call: Call) -> tuple[bytes, str]:
    """The surrogate of an output, as `hyperleaf predict` and `load_model` read it."""
    with TemporaryDirectory(prefix="hyperleaf-") as folder:
        path = Path(folder) / "surrogate.npz"
        warm.slow(lambda study: study.save_model(path, call.options.get("output")))
        return path.read_bytes(), "surrogate.npz"


def report(warm: Warm, call: Call) -> tuple[bytes, str]:
    from hyperleaf.report import write_report

    found = warm.learned()
    definition = found.definition.model_copy(update={"simulator": None})
    with TemporaryDirectory(prefix="hyperleaf-") as folder:
        path = write_report(replace(found, definition=definition), Path(folder) / "report.html")
        return path.read_bytes(), "report.html"
