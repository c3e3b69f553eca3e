"""What is done with a surrogate once there is one: `hyperleaf export`, `predict`, `sensitivity` and `compare`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperleaf.cli import output
from hyperleaf.cli.opening import AsJson, StudyOption, keep_compiled, open_study, path_of

SurrogateOption = Annotated[
    Path | None, typer.Option("--surrogate", metavar="FILE.npz", help="A surrogate that export wrote, in place of a study.")
]


def register(app: typer.Typer) -> None:
    for command in (export, predict, sensitivity, compare):
        app.command()(command)


def export(
    file: Annotated[
        Path,
        typer.Argument(
            help="What is written follows from the name: .csv, .parquet, .nc, .npz, .py, .c, .onnx, .m, .fmu or .xlsx."
        ),
    ],
    study_option: StudyOption = None,
    surrogate: SurrogateOption = None,
    quantity: Annotated[
        list[str] | None, typer.Option("--output", metavar="NAME", help="Of which output, if there are several; may be repeated.")
    ] = None,
    noisy: Annotated[bool, typer.Option("--noisy", help="Predict a measurement, with its noise.")] = False,
    quantile: Annotated[
        list[float] | None, typer.Option("--quantile", metavar="Q", help="A quantile too; may be repeated.")
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option("--tolerance", metavar="SHARE", help="Fewer draws: mean and std may move by so much of the std."),
    ] = None,
    derivatives: Annotated[bool, typer.Option("--derivatives", help="Slopes by the real inputs too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the runs, the posterior or the surrogate to a file.

    .csv and .parquet hold the table of runs, .nc the posterior (for ArviZ), .npz the surrogate (for predict), .py a Python file
    that needs NumPy alone, .c C source, .onnx an ONNX model, .m a MATLAB or Octave function, .fmu an FMU 2.0, .xlsx a workbook.
    """
    from hyperleaf import exports

    wanted = exports.format_of(file)
    wishes = exports.Wishes.of(quantity or None, noisy, quantile or (), tolerance, derivatives)
    held = _held(study_option, surrogate, wanted.learns)
    shown = exports.export_with_facts(held, file, wishes)
    output.result(as_json, {"file": str(file), **shown}, f"Wrote {shown['what']} to {file}.")


def _held(study: Path | None, surrogate: Path | None, learns: bool) -> Any:
    """The study, or the surrogate in a file."""
    if surrogate is None:
        return open_study(path_of(None, study), begins=False, learns=learns)
    if study is not None:
        raise typer.BadParameter("name a study or a surrogate, not both.")
    from hyperleaf.cli import files
    from hyperleaf.study import load_model

    keep_compiled()
    files.check_readable(surrogate)
    return load_model(surrogate)


def predict(
    surrogate: Annotated[Path, typer.Argument(help="A surrogate that export wrote, .npz.")],
    points: Annotated[Path, typer.Argument(help="A CSV, Excel or Parquet file with a column for each input.")],
    target: Annotated[
        Path | None, typer.Option("-o", metavar="FILE", help="Where to write, .csv or .parquet; else it is printed.")
    ] = None,
    noisy: Annotated[bool, typer.Option("--noisy", help="Predict a measurement, with its noise.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a surrogate says at the points of a file.

    Columns for the mean, the standard deviation and the 90 % interval from low to high.
    """
    from hyperleaf.cli import files

    keep_compiled()
    files.check_readable(surrogate)
    from hyperleaf.cli.streaming import predict_lines, predict_to
    from hyperleaf.study import load_model

    if target is None:
        if as_json:  # one value, so all of it at once
            shown, table = files.predict(surrogate, points, noisy)
            output.result(as_json, {**shown, "points": table.to_dict("records")}, "")
            return
        for lines in predict_lines(load_model(surrogate), points, noisy):
            typer.echo(lines, nl=False)
        return

    files.check_folder(target)
    model = load_model(surrogate)
    with progress_bar(as_json) as report:
        rows = predict_to(target, model, points, noisy, report)
    shown = {"file": str(target), "rows": rows, **files.facts_of(model, noisy)}
    output.result(as_json, shown, f"Wrote {rows} predictions to {target}.")


def sensitivity(
    study_option: StudyOption = None,
    surrogate: SurrogateOption = None,
    quantity: Annotated[
        str | None, typer.Option("--output", metavar="NAME", help="Of which output, if there are several.")
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="Interactions of two inputs as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Which inputs matter, and how surely.

    Shares of the variance over the whole domain, by itself and with all interactions (Sobol indices).
    """
    from hyperleaf.analysis import sobol

    held = _held(study_option, surrogate, True)
    with progress_bar(as_json) as report:
        found = sobol.sensitivity(held, quantity, pairs=pairs, progress=lambda done, of: report(done / of))
    values = {
        "output": found.output,
        "unit": found.unit,
        "std": found.std,
        "first": found.first,
        "total": found.total,
        "pairs": [{"inputs": list(names), **output.plain(index)} for names, index in found.pairs.items()],
        "notes": list(found.messages),
    }
    output.result(as_json, values, sobol.words_of(found))


def compare(
    first: Annotated[Path, typer.Argument(help="A surrogate that export wrote, .npz.")],
    second: Annotated[Path, typer.Argument(help="Another one of the same inputs.")],
    as_json: AsJson = False,
) -> None:
    """How far two surrogates are apart.

    Over points that fill the domain, in native units and in units of what they doubt themselves.
    """
    from hyperleaf.analysis import compare as compared
    from hyperleaf.cli import files
    from hyperleaf.study import load_model

    keep_compiled()
    for path in (first, second):
        files.check_readable(path)
    found = compared(load_model(first), load_model(second))
    output.result(as_json, output.plain(found), found.words())


@contextmanager
def progress_bar(as_json: bool) -> Iterator[Callable[[float], None]]:
    """A bar on stderr for people who watch; it is told the share that is done."""
    if as_json or not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda share: progress.update(task, completed=share)
