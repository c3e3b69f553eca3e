"""What is done with a surrogate once there is one: `hyperleaf export` and `hyperleaf predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hyperleaf.cli import output
from hyperleaf.cli.opening import AsJson, StudyOption, keep_compiled, open_study, path_of

SurrogateOption = Annotated[
    Path | None, typer.Option("--surrogate", metavar="FILE.npz", help="A surrogate that export wrote, in place of a study.")
]


def register(app: typer.Typer) -> None:
    for command in (export, predict):
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
    quantile: Annotated[list[float] | None, typer.Option("--quantile", metavar="Q", help="A quantile too; may be repeated.")] = None,
    tolerance: Annotated[
        float | None, typer.Option("--tolerance", metavar="SHARE", help="Fewer draws: mean and std may move by so much of the std.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the runs, the posterior or the surrogate to a file.

    .csv and .parquet hold the table of runs, .nc the posterior (for ArviZ), .npz the surrogate (for predict), .py a Python file that
    needs NumPy alone, .c C source, .onnx an ONNX model, .m a MATLAB or Octave function, .fmu an FMU 2.0, .xlsx a workbook.
    """
    from hyperleaf import exports

    wanted = exports.format_of(file)
    wishes = exports.Wishes.of(quantity or None, noisy, quantile or (), tolerance)
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
    points: Annotated[Path, typer.Argument(help="A CSV file with a column for each input.")],
    target: Annotated[Path | None, typer.Option("-o", metavar="FILE.csv", help="Where to write; else it is printed.")] = None,
    noisy: Annotated[bool, typer.Option("--noisy", help="Predict a measurement, with its noise.")] = False,
    as_json: AsJson = False,
) -> None:
    """What a surrogate says at the points of a file.

    Columns for the mean, the standard deviation and the 90 % interval from low to high.
    """
    from hyperleaf.cli import files

    keep_compiled()
    files.check_readable(surrogate)
    if target is not None:
        files.check_folder(target)
    shown, table = files.predict(surrogate, points, noisy)
    if target is not None:
        files.write_csv(target, table)
        output.result(as_json, {"file": str(target), **shown}, f"Wrote {len(table)} predictions to {target}.")
    else:
        output.result(as_json, {**shown, "points": table.to_dict("records")}, table.to_csv(index=False).rstrip("\n"))
