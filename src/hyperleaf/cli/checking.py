"""`hyperleaf check`: a study file is read and everything that it leads to is looked at, before anything is run."""

from __future__ import annotations

from typing import Any

import typer

from hyperleaf.cli import output
from hyperleaf.cli.opening import AsJson, StudyArgument, StudyOption, path_of, storage_of


def register(app: typer.Typer) -> None:
    app.command()(check)


def check(study: StudyArgument = None, study_option: StudyOption = None, as_json: AsJson = False) -> None:
    """What a study would do, or what is wrong with it.

    Names every mistake with its line, looks at files, programs and the store, and writes nothing. The exit code is 1
    if anything is wrong.
    """
    from hyperleaf.config import read_text
    from hyperleaf.config.checking import Checked

    path = path_of(study, study_option)
    found = Checked(read_text(path), str(path))
    plan: dict[str, str] = {}
    if found.definition is not None:
        from hyperleaf.study.foreseen import look

        foreseen = look(found.definition, storage_of(found.definition, path), path.parent)
        plan = foreseen.plan
        for place, words in foreseen.mistakes:
            found.add(tuple(place.split(".")), words)
    mistakes = sorted(found.mistakes, key=lambda one: one.line or 0)
    shown: dict[str, Any] = {
        "valid": not mistakes,
        "mistakes": [{"line": one.line, "words": one.words} for one in mistakes],
        "plan": plan,
    }
    if as_json:
        output.result(True, shown, "")
    elif mistakes:
        typer.echo("\n".join(one.text(str(path)) for one in mistakes), err=True)
    else:
        output.result(False, shown, f"{path} is in order. This is what it would do:\n" + output.columns(plan.items()))
    if mistakes:
        raise typer.Exit(1)
