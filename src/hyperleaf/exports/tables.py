"""The table of runs, as CSV or Parquet. CSV loads neither JAX nor pandas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.io import replacing


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    """All outputs; those that are named must be there all the same."""
    from hyperleaf.study import tables

    wishes.must_be_plain("a table of runs holds what was measured and no predictions")
    study = source.study
    for name in wishes.outputs or ():
        if name not in study.outputs:
            raise InputError(f"output must be one of {list(study.outputs)}; got {name!r}.")
    if path.suffix.lower() == ".csv":
        record = study.snapshot().record
        with replacing(path) as unfinished:
            unfinished.write_text(tables.csv_of(record, study.domain.names, study.outputs), encoding="utf-8")
        rows = len(record.queries)
    else:
        table = study.table()
        with replacing(path) as unfinished:
            try:
                table.to_parquet(unfinished, index=False)
            except ImportError:
                raise InputError("Parquet needs pyarrow, which is not installed. Run: pip install 'hyperleaf[export]'") from None
        rows = len(table)
    return {"what": f"{rows} queries", "rows": rows}


FORMAT = Format((".csv", ".parquet"), "the table of runs", write, learns=False)
