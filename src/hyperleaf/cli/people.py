"""The commands of whoever answers queries by hand: ask, tell, and putting right what was told."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyperleaf.cli import output, serving
from hyperleaf.cli.opening import AsJson, StudyArgument, StudyOption, open_study, path_of

Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, kept with the change.")]
Who = Annotated[str | None, typer.Option("--who", metavar="NAME", help="Who says so; the user of this computer by default.")]
Numbers = Annotated[list[int], typer.Argument(metavar="ID…", help="The numbers of the queries.", min=1)]


def register(app: typer.Typer) -> None:
    """In the order in which they are used."""
    app.command()(ask)
    app.command(epilog="Examples: hyperleaf tell 7 lift=0.83 drag=0.12    hyperleaf tell 7 --failed 'no convergence'")(tell)
    app.command(epilog="Example: hyperleaf correct 7 lift=0.83 --why 'comma lost'")(correct)
    app.command(epilog="Example: hyperleaf void 7 --why 'sensor off'")(void)
    app.command()(restore)
    app.command(epilog="Example: hyperleaf confirm 7 --why 'measured twice'")(confirm)


def ask(
    study: StudyArgument = None,
    study_option: StudyOption = None,
    num: Annotated[int, typer.Option("-n", min=1, help="How many queries.")] = 1,
    again: Annotated[bool, typer.Option("--again", help="Show the open queries and ask for no more.")] = False,
    repeat: Annotated[
        int | None, typer.Option("--repeat", metavar="ID", min=1, help="Ask for the setting of that query once more.")
    ] = None,
    release: Annotated[
        int | None, typer.Option("--release", metavar="ID", min=1, help="Give that query back; the next ask offers it again.")
    ] = None,
    lease: Annotated[
        str | None, typer.Option("--lease", metavar="8h", help="For how long they are yours; without it until they are told.")
    ] = None,
    sheet: Annotated[
        Path | None,
        typer.Option("--sheet", "-o", metavar="FILE.csv", help="Write them to a sheet to fill in, for tell --csv."),
    ] = None,
    connect: serving.Connect = None,
    as_json: AsJson = False,
) -> None:
    """The next queries, for a person to answer.

    They stay open until they are told, however long it takes.
    """
    if sum((again, repeat is not None, release is not None)) > 1:
        raise typer.BadParameter("--again, --repeat and --release are three different things; say one of them.")
    if release is not None and (sheet is not None or lease is not None or num != 1):
        raise typer.BadParameter("--release gives one query back; neither -n, --lease nor --sheet goes with it.")
    if again and (lease is not None or num != 1):
        raise typer.BadParameter("--again shows the queries that are open; neither -n nor --lease goes with it.")
    if connect is not None:
        if (
            again
            or sheet is not None
            or repeat is not None
            or release is not None
            or study is not None
            or study_option is not None
        ):
            raise typer.BadParameter("--connect asks a server; of the other options only -n, --lease and --json go with it.")
        output.result(as_json, *serving.ask(connect, num, lease))
        return
    from hyperleaf.cli import answering, files

    path = path_of(study, study_option)
    if sheet is not None:
        files.check_folder(sheet)  # before a query is claimed that would have nowhere to go
    new = not again and repeat is None and release is None
    opened = open_study(path, begins=new, learns=new)
    if release is not None:
        given = opened.release(release)
        words = "is offered again by the next ask" if given else "was held by nobody; nothing changed"
        output.result(as_json, {"study": opened.name, "released": given}, f"Query {release} {words}.")
        return
    if repeat is not None:
        queries = answering.repeat(opened, repeat, num, lease)
    else:
        queries = answering.open_queries(opened) if again else answering.ask(opened, num, lease)
    if sheet is not None:
        answering.write_sheet(sheet, opened, queries)
    text = answering.asked_text(opened, queries, path, sheet)
    output.result(as_json, {"study": opened.name, "queries": [output.query_values(query) for query in queries]}, text)


def tell(
    query: Annotated[int | None, typer.Argument(metavar="ID", help="The number of the query.", min=1)] = None,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="All outputs of the run, and inputs that were set otherwise than asked."),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            metavar="FILE",
            help="Tell the rows of a file by their column id; without one they are added as runs.",
        ),
    ] = None,
    achieved: Annotated[
        bool, typer.Option("--achieved", help="The inputs in the file are those that were set, also where others were asked for.")
    ] = False,
    failed: Annotated[str | None, typer.Option("--failed", metavar="REASON", help="The run failed, and why.")] = None,
    study_option: StudyOption = None,
    as_json: AsJson = False,
) -> None:
    """Keep what a run gave, or that it failed.

    It is on disk when the command ends; telling the same twice changes nothing.
    """
    given = pairs(values or [])
    if (query is None) == (csv is None):
        raise typer.BadParameter("tell either a query (hyperleaf tell 7 lift=0.83) or a file (hyperleaf tell --csv runs.csv).")
    if csv is not None and (given or failed is not None):
        raise typer.BadParameter("--csv takes everything from the file; neither NAME=VALUE nor --failed goes with it.")
    if query is not None and bool(given) == (failed is not None):
        raise typer.BadParameter("say either what the run gave (lift=0.83) or that it failed (--failed REASON).")
    if achieved and csv is None:
        raise typer.BadParameter("--achieved goes with --csv; for one query tell the input itself: hyperleaf tell 7 speed=1005 …")
    from hyperleaf.cli import answering, sheets

    opened = open_study(path_of(None, study_option), begins=csv is not None and not sheets.has_ids(csv))
    if csv is not None:
        told = answering.tell_file(opened, csv, achieved)
    elif failed is not None:
        told = answering.tell_failed(opened, query, failed)
    else:
        told = answering.tell(opened, query, given)
    for note in answering.beyond_constraints(opened, (*told.told, *told.known)):
        output.complain(f"note: {note}.")
    suspects = answering.suspects(opened, told)
    lines = [told.text(), *(line for one in suspects for line in output.suspect_lines(one))]
    shown = {"study": opened.name, **told.values(), "suspects": [output.suspect_values(one) for one in suspects]}
    output.result(as_json, shown, "\n".join(lines))


def correct(
    query: Annotated[int | None, typer.Argument(metavar="ID", help="The number of the query.", min=1)] = None,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=VALUE", help="What is right: outputs, or inputs as they were set.")
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Put right what differs in the rows of a file, by their column id."),
    ] = None,
    why: Why = "",
    who: Who = None,
    study_option: StudyOption = None,
    as_json: AsJson = False,
) -> None:
    """Put right what was told.

    What stood there before is kept, with who changed it, when and why. Queries that were asked since stay; what was learned
    follows, as if it had been told right from the start.
    """
    given = pairs(values or [])
    if (query is None) == (csv is None) or (query is None) == bool(given):
        raise typer.BadParameter(
            "correct either a query (hyperleaf correct 7 lift=0.83) or a file (hyperleaf correct --csv f.csv)."
        )
    from hyperleaf.cli import answering, correcting

    opened = open_study(path_of(None, study_option), begins=False)
    if csv is not None:
        changes = correcting.correct_file(opened, csv, why, who)
    else:
        changes = correcting.correct(opened, query, given, why, who)
    for note in answering.beyond_constraints(opened, sorted({change.query_id for change in changes})):
        output.complain(f"note: {note}.")
    output.result(as_json, correcting.values(opened, changes), correcting.text(changes))


def void(queries: Numbers, why: Why = "", who: Who = None, study_option: StudyOption = None, as_json: AsJson = False) -> None:
    """Let runs no longer count, or leave open queries unanswered.

    Nothing is deleted: hyperleaf restore makes them count again.
    """
    from hyperleaf.cli import correcting

    opened = open_study(path_of(None, study_option), begins=False)
    changes = correcting.cover(opened, queries, "voided", why, who)
    output.result(as_json, correcting.values(opened, changes), correcting.text(changes))


def restore(queries: Numbers, why: Why = "", who: Who = None, study_option: StudyOption = None, as_json: AsJson = False) -> None:
    """Let voided runs count again, exactly as they did before."""
    from hyperleaf.cli import correcting

    opened = open_study(path_of(None, study_option), begins=False)
    changes = correcting.cover(opened, queries, "restored", why, who)
    output.result(as_json, correcting.values(opened, changes), correcting.text(changes))


def confirm(queries: Numbers, why: Why = "", who: Who = None, study_option: StudyOption = None, as_json: AsJson = False) -> None:
    """Say that what runs gave is right.

    It is then not pointed out.
    """
    from hyperleaf.cli import correcting

    opened = open_study(path_of(None, study_option), begins=False)
    changes = correcting.cover(opened, queries, "confirmed", why, who)
    output.result(as_json, correcting.values(opened, changes), correcting.text(changes))


def pairs(texts: list[str]) -> dict[str, str]:
    """NAME=VALUE, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"values are told as NAME=VALUE, without spaces; got {text!r}.")
        if name.strip() in found:
            raise typer.BadParameter(f"each name is told once; {name.strip()!r} is told twice.")
        found[name.strip()] = value
    return found
