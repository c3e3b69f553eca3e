"""An Excel workbook: what the surrogate predicts over the domain, the runs it was learned from, and its certificate.

Numbers, no formulas: a workbook cannot hold the surrogate itself, so the sheet of predictions covers the domain evenly, and along
each input by itself with the others in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hyperleaf.errors import InputError
from hyperleaf.exports.base import Format, Source, Wishes
from hyperleaf.io import replacing

OVER, ALONG = 500, 41  # rows over the domain, and along each input


def write(path: Path, source: Source, wishes: Wishes) -> dict[str, Any]:
    try:
        import openpyxl
    except ImportError:
        raise InputError("a workbook needs openpyxl, which is not installed. Run: pip install 'hyperleaf[excel]'") from None
    from hyperleaf.exports.certificate import certified, summary
    from hyperleaf.exports.ingredients import axes_of, quantile_name

    if wishes.tolerance is not None:
        raise InputError("a workbook holds predictions and no draws, so there is nothing to thin; leave out tolerance.")
    models = source.chosen(wishes)
    domain = next(iter(models.values())).domain
    certificate = certified(models, source.accuracy, [None] * len(models), [None] * len(models), wishes)
    book = openpyxl.Workbook()
    first = book.active
    first.title = "certificate"
    for line in (*summary(certificate), "", "All of it:", *json.dumps(certificate, indent=1).splitlines()):
        first.append([_cell(line)])
    first.column_dimensions["A"].width = 110
    columns = ("mean", "std", *(quantile_name(q) for q in wishes.quantiles))
    header = [_labelled(name, domain.axes[name].unit) for name in domain.names]
    slopes = [f"{what}by {axis.name}" for axis in axes_of(domain) if axis.kind == "real" for what in ("", "std of slope ")]
    for name, model in models.items():
        header += [_labelled(f"{name} {column}", model.unit) for column in columns]
        header += [f"{name} {column}" for column in slopes if wishes.derivatives]
    _sheet(book, "predictions", header, _predicted(models, domain.design(OVER, "sobol", 0), wishes))
    for name in domain.names:
        _sheet(book, f"along {name}", header, _predicted(models, _along(domain, name), wishes))
    for name, model in models.items():
        data = model.learned.posterior.data
        runs = [[*point.values(), float(y)] for point, y in zip(domain.from_unit(data.x), model.learned.y, strict=True)]
        labels = [*header[: len(domain.names)], _labelled(name, model.unit)]
        _sheet(book, "runs" if len(models) == 1 else f"runs of {name}", labels, runs)
    with replacing(path) as unfinished:
        book.save(unfinished)
    return {"what": f"a workbook of {', '.join(models)}", "sheets": book.sheetnames, **certificate}


def _along(domain: Any, name: str) -> list[dict[str, Any]]:
    """Points along one input with the others in their middle."""
    middle = domain.from_unit(domain.snap(np.full((1, domain.num_dims), 0.5)))[0]
    axis = domain.axes[name]
    values = axis.values(axis.ticks(ALONG))
    return [{**middle, name: value} for value in values[:: max(len(values) // ALONG, 1)]]


def _predicted(models: Mapping[str, Any], points: list[dict[str, Any]], wishes: Wishes) -> list[list[Any]]:
    from hyperleaf.exports.ingredients import axes_of, check_slopes, part_of
    from hyperleaf.exports.numerics import native_slopes

    found = []
    for model in models.values():
        mixture = model.predict(points, noisy=wishes.noisy)
        found += [mixture.mean(), mixture.std(), *(mixture.quantile(q) for q in wishes.quantiles)]
        if wishes.derivatives:
            axes, part = axes_of(model.domain), part_of(model)
            check_slopes(axes, (part,))
            numbers = np.array([[0.0 if axis.options else point[axis.name] for axis in axes] for point in points])
            slopes = native_slopes(part, axes, model.domain.to_unit(points), numbers)
            found += list(np.stack(slopes, axis=2).reshape(len(points), -1).T)
    return [[*point.values(), *map(float, row)] for point, row in zip(points, np.transpose(found), strict=True)]


def _labelled(name: str, unit: str | None) -> str:
    return f"{name} [{unit}]" if unit else name


def _sheet(book: Any, title: str, header: list[str], rows: Iterable[list[Any]]) -> None:
    from openpyxl.styles import Font

    clean = "".join(" " if letter in "[]:*?/\\" else letter for letter in title)[:31]
    sheet = book.create_sheet(clean)
    sheet.append([_cell(text) for text in header])
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    sheet.freeze_panes = "A2"
    for row in rows:
        sheet.append([_cell(value) for value in row])


def _cell(value: Any) -> Any:
    """A text that begins like a formula stays a text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


FORMAT = Format((".xlsx",), "an Excel workbook of predictions", write)
