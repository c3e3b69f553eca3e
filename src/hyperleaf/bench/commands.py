"""`hyperleaf bench`: list, run, report, quick. Parse, call, print; nothing heavy is imported before a command needs it."""

from __future__ import annotations

import json
import math
import shlex
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperleaf.bench.showing import Told, display
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.processes import ended_like_ctrl_c

INTERRUPTED, FAILED_RUNS = 130, 3
STORE = "sqlite:///bench.db"

app = typer.Typer(
    help="The comparison of surrogates: tasks, campaigns, statistics, figures.",
    epilog="A campaign is the name of one that comes with hyperleaf (see: hyperleaf bench list), or a TOML file of your own.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
Store = Annotated[str, typer.Option("--store", metavar="ADDRESS", help="Where the runs are kept.")]
Names = Annotated[str | None, typer.Option(metavar="A,B,…", help="Instead of those of the campaign.")]
Paths = Annotated[
    list[str] | None,
    typer.Option("--path", metavar="TASK=FILE", help="File or folder of a task that reads one; once for each such task."),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=1, help="Runs at a time, each in a process of its own.")]
Target = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where tables, figures and the page go.")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Campaigns, tasks and methods that there are."""
    from hyperleaf.bench.campaign import PRESETS
    from hyperleaf.bench.methods import METHODS
    from hyperleaf.bench.rivals import RIVALS
    from hyperleaf.bench.tasks import needs_path, tasks

    known = {name: dict(parts) for name, parts in PRESETS.items()}
    named = {name: (f"reads a file: --path {name}=FILE" if needs_path(name) else _title(name)) for name in tasks()}
    missing = {name: f" (needs {kind.needs}: {kind.install})" for name, kind in RIVALS.items() if not kind.installed()}
    methods = {one.name: one.title + missing.get(one.surrogate["kind"], "") for one in METHODS.values()}
    lines = ["Campaigns"]
    for name, parts in known.items():
        queries = f", {parts['queries']} queries" if "queries" in parts else ""
        lines.append(f"  {name}: {', '.join(parts['tasks'])}; {parts['seeds']} seeds{queries}")
        lines.append(f"      {', '.join(parts['methods'])}")
    for title, values in (("Tasks", named), ("Methods", methods)):
        width = max(map(len, values))
        lines += [title, *(f"  {name.ljust(width)}  {words}" for name, words in values.items())]
    _result(as_json, {"campaigns": known, "tasks": named, "methods": methods}, "\n".join(lines))


def _title(name: str) -> str:
    from hyperleaf.bench.tasks import task

    return task(name).title


@app.command(epilog="Goes on where it was stopped, however it was stopped; runs that are complete are not made again.")
def run(
    campaign: Annotated[str, typer.Argument(metavar="CAMPAIGN", help="A name (see list) or a file, my.toml.")],
    tasks: Names = None,
    methods: Names = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many.")] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Of each run.")] = None,
    jobs: Jobs = 1,
    executor: Annotated[str | None, typer.Option(metavar="dask://HOST:PORT", help="Where runs are made instead.")] = None,
    store: Store = STORE,
    path: Paths = None,
    as_json: AsJson = False,
) -> None:
    """Carry out what is left of a campaign."""
    chosen = _campaign(campaign, tasks, methods, seeds, queries, path)
    _check_store(store, executor)
    _run(chosen, store, executor or jobs, as_json)


@app.command()
def report(
    campaign: Annotated[str | None, typer.Argument(metavar="CAMPAIGN", help="A part of what the store holds; all of it.")] = None,
    out: Target = Path("bench"),
    store: Store = STORE,
    tasks: Names = None,
    methods: Names = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many.")] = None,
    queries: Annotated[int | None, typer.Option(min=1, help="Of each run, and no more.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="METHOD", help="That others are held against; hhk if it is there.")
    ] = None,
    cross: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Fit these to the points of all methods: model and design effect.")
    ] = None,
    path: Paths = None,
    as_json: AsJson = False,
) -> None:
    """Write tables, figures and a page about the runs of a store."""
    from hyperleaf.bench.campaign import Campaign, absolute_url, stored_campaign
    from hyperleaf.bench.report import write_bench_report
    from hyperleaf.storage import open_storage

    _check_folder(out)
    storage = open_storage(absolute_url(store), create=False)
    if campaign is not None:
        chosen = _campaign(campaign, tasks, methods, seeds, queries, path)
    else:
        found = stored_campaign(storage, _pairs(path))
        own = {one.name: one for one in found.methods}
        wanted = _listed(methods) or list(own)
        missing = [*(name for name in wanted if name not in own), *(n for n in _listed(tasks) or () if n not in found.tasks)]
        if missing:
            raise InputError(f"the store has no runs of {missing[0]!r}; it has {', '.join([*found.tasks, *own])}.")
        chosen = Campaign(
            Path(store).stem,
            tuple(_listed(tasks) or found.tasks),
            tuple(own[name] for name in wanted),
            found.seeds[:seeds],
            queries or found.queries,
            found.paths,
        )
    names = [one.name for one in chosen.methods]
    against = against or ("hhk" if "hhk" in names else names[0])
    _keep_compiled()
    heard = Told(as_json)
    models = _listed(cross) or ()
    written = write_bench_report(chosen, storage, out, against=against, cross=models, progress=heard)
    storage.close()
    text = f"Wrote {len(written)} files to {out}. Open {out / 'index.html'} in a browser."
    _result(as_json, {"folder": str(out), "files": [one.name for one in written], "against": against}, text)


@app.command()
def quick(
    out: Target = Path("bench-quick"),
    store: Annotated[str | None, typer.Option("--store", metavar="ADDRESS", help="In the folder by default.")] = None,
    jobs: Jobs = 2,
    as_json: AsJson = False,
) -> None:
    """A small comparison with its report, within ten minutes.

    2 tasks, 4 methods, 3 seeds, 20 queries.
    """
    from hyperleaf.bench.campaign import absolute_url
    from hyperleaf.bench.report import write_bench_report
    from hyperleaf.storage import open_storage

    _check_folder(out)
    chosen = _campaign("quick", None, None, None, None, None)
    out.mkdir(parents=True, exist_ok=True)
    address = store or f"sqlite:///{out / 'bench.db'}"
    started = time.monotonic()
    standing = _carry_out(chosen, address, jobs, as_json, "hyperleaf bench quick")
    storage = open_storage(absolute_url(address))
    written = write_bench_report(chosen, storage, out)
    ranking = (out / "ranking.md").read_text(encoding="utf-8")
    storage.close()
    seconds = time.monotonic() - started
    values = {**_values(standing, address), "seconds": seconds, "folder": str(out), "files": [one.name for one in written]}
    _result(as_json, values, f"{ranking}\n{_words(standing, seconds)}\nOpen {out / 'index.html'} in a browser.")
    if standing.failed:
        raise typer.Exit(FAILED_RUNS)


# --- within


def _campaign(
    name: str, tasks: str | None, methods: str | None, seeds: int | None, queries: int | None, path: list[str] | None
) -> Any:
    from hyperleaf.bench.campaign import preset

    return preset(name, tasks=_listed(tasks), methods=_listed(methods), seeds=seeds, queries=queries, paths=_pairs(path))


def _run(campaign: Any, store: str, jobs: int | str, as_json: bool) -> None:
    started = time.monotonic()
    standing = _carry_out(campaign, store, jobs, as_json, _command())
    report = "hyperleaf bench report" + ("" if store == STORE else f" --store {shlex.quote(store)}")
    _result(as_json, _values(standing, store), f"{_words(standing, time.monotonic() - started)}\nSee it with: {report}")
    if standing.failed:
        raise typer.Exit(FAILED_RUNS)


def _carry_out(campaign: Any, store: str, jobs: int | str, as_json: bool, again: str) -> Any:
    from hyperleaf.bench.campaign import run_campaign

    _keep_compiled()
    try:
        with display(campaign.name, as_json) as progress, ended_like_ctrl_c():
            return run_campaign(campaign, store, jobs=jobs, progress=progress)
    except KeyboardInterrupt:
        typer.echo(f"Interrupted. Everything done is kept; go on with: {again}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise InputError(f"--out must be a folder, for tables, figures and the page; {out} is a file. Name another.")


def _check_store(store: str, executor: str | None) -> None:
    if store.startswith("memory:"):
        raise InputError('a campaign needs a store that lasts; got "memory://". Write --store sqlite:///bench.db')
    if executor is not None and executor.startswith("dask://") and store.startswith("sqlite:"):
        words = "Dask workers on other machines cannot reach a SQLite file; for those give a postgresql:// store."
        typer.echo(f"hyperleaf: note: {words}", err=True)


def _listed(text: str | None) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise typer.BadParameter("names are separated by commas; got none.")
    return names


def _pairs(texts: list[str] | None) -> dict[str, str] | None:
    if texts is None:
        return None
    found = {}
    for text in texts:
        name, separator, file = text.partition("=")
        if not separator or not name or not file:
            raise typer.BadParameter(f"a path is given as TASK=FILE, like engine-hc=engine1.csv; got {text!r}.")
        found[name] = file
    return found


def _command() -> str:
    """What was typed, to be typed again."""
    return "hyperleaf " + shlex.join(sys.argv[1:]) if sys.argv[1:2] == ["bench"] else "the same command"


def _values(standing: Any, store: str) -> dict[str, Any]:
    return {
        "store": store,
        "runs": standing.runs,
        "ended": standing.ended,
        "queries": standing.done,
        "failed": dict(standing.failed),
    }


def _words(standing: Any, seconds: float) -> str:
    from hyperleaf.simulators.durations import format_duration

    lines = [f"{standing.ended} of {standing.runs} runs are complete, {standing.done} queries; {format_duration(seconds)}."]
    lines += [f"Failed: {name}: {reason}" for name, reason in standing.failed.items()]
    return "\n".join(lines)


def _keep_compiled() -> None:
    from hyperleaf.compilation import enable_compilation_cache

    try:
        enable_compilation_cache()
    except HyperleafError as error:
        typer.echo(f"hyperleaf: note: {error}", err=True)


def _result(as_json: bool, values: Mapping[str, Any], text: str) -> None:
    typer.echo(json.dumps(_plain(values), indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
