"""`hyperleaf serve`, and what `run` and `ask` do at a served study: --connect URL."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hyperleaf.cli import output
from hyperleaf.cli.opening import AsJson

PATIENCE = 10.0  # seconds that a person waits for a server that does not answer; a run has more
Connect = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Of a study that hyperleaf serve serves: http://host:port, with ?token=… or HYPERLEAF_TOKEN if it runs elsewhere.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: hyperleaf serve study.toml    then open the link that is printed")(serve)


def serve(
    study: Annotated[
        str | None,
        typer.Argument(metavar="STUDY.toml|STORE", help="A study file, or the address of a store with several studies."),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Where to listen; others can reach only another host than this.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="0 takes a free one.")] = 8765,
    view: Annotated[bool, typer.Option("--view", help="Print a link for looking only, too.")] = False,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Keep one token over starts, in a file of yours alone.")
    ] = None,
    no_token: Annotated[bool, typer.Option("--no-token", help="Let everybody on this machine in.")] = False,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="A certificate, for another host.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy of yours ends TLS before this server.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME[:PORT]", help="A name by which browsers call it; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """A page to watch and answer, and an HTTP interface.

    It needs no network, and goes on until Ctrl-C. Whoever has the link may ask and tell; nobody can start a simulator through it.
    """
    storage, folder, names = _opened(study or "study.toml")
    settings_type, server_type = _server()
    settings = settings_type(host, port, token_file, no_token, tls_cert, tls_key, behind_proxy, tuple(allow_host or ()))
    server = server_type(storage, settings, folder, names)
    shown = {"url": server.url, "view": server.view_url, "port": server.access.port}
    lines = [f"Serving {_listed(server.studies.names())}", f"Open   {server.url}"]
    lines += [f"Look   {server.view_url}"] if view else []
    if token_file is None and not no_token:
        lines.append("The token is good until this ends. Programs of yours on this machine find it by themselves.")
    server.run(lambda: _say(as_json, shown, "\n".join([*lines, "Ctrl-C ends it; nothing is lost."])))
    if not as_json:
        typer.echo("Ended.")
    if server.studies.is_learning:  # everything told is on disk, and what is being learned can be learned again
        import os
        import sys

        sys.stdout.flush()
        os._exit(0)


def _say(as_json: bool, shown: dict[str, Any], text: str) -> None:
    import sys

    output.result(as_json, shown, text)
    sys.stdout.flush()  # a program that started this waits for it


def _server() -> Any:
    from hyperleaf.errors import InputError

    try:
        from hyperleaf.server.serving import Server, Settings
    except ImportError as error:
        if error.name not in ("uvicorn", "starlette", "h11", "anyio"):
            raise
        raise InputError(f"a server needs {error.name}, which is not installed. Run: pip install 'hyperleaf[serve]'") from None
    return Settings, Server


def _opened(what: str) -> tuple[Any, Path, tuple[str, ...] | None]:
    """The store, the folder that relative paths mean, and the one study to serve (None: all)."""
    if "://" in what:
        from hyperleaf.storage import open_storage

        return open_storage(what, create=False), Path("."), None
    path = Path(what)
    if path.suffix.lower() in (".db", ".sqlite", ".sqlite3"):
        from hyperleaf.storage import open_storage

        return open_storage(f"sqlite:///{path}", create=False), path.parent, None
    from hyperleaf.cli.opening import open_study

    study = open_study(path)
    return study.storage, path.parent, (study.name,)


def _listed(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return f"the study {names[0]!r}"
    return f"{len(names)} studies: {', '.join(repr(name) for name in names[:8])}{' …' if len(names) > 8 else ''}"


# --- at a served study


def ask(url: str, num: int, lease: str | None) -> tuple[dict[str, Any], str]:
    """Queries for a person, from a server that has all compiled and learned."""
    from hyperleaf.server.client import connect

    with connect(url, patience=PATIENCE) as study:
        queries = study.ask(num, lease=lease)
    units = {name: axis.unit or "" for name, axis in study.domain.axes.items()}
    rows = [
        [f"query {one.id}", *(f"{name} = {output.number(value)} {units[name]}".rstrip() for name, value in one.point.items())]
        for one in queries
    ]
    outputs = " ".join(f"{name}=…" for name in study.outputs)
    where = f"Answer at {study.connection.address}, or at the store: hyperleaf tell {queries[0].id} {outputs}"
    text = f"{output.columns(rows, indent='')}\n{where}"
    return {"study": study.name, "queries": [output.query_values(one) for one in queries]}, text


def run(url: str, path: Path, *, jobs: str, queries: int | None, as_json: bool) -> tuple[Any, dict[str, Any], str]:
    """Evaluate queries of a served study with the simulator of a study file of this machine."""
    from hyperleaf.config import ConfigError, read_toml
    from hyperleaf.processes import ended_like_ctrl_c
    from hyperleaf.server.client import connect

    definition = read_toml(path)
    if definition.simulator is None:
        raise ConfigError(f"a run needs a simulator; {path} has none. Write a section [simulator]: a server does not send one.")
    study = connect(url, definition.study.name)
    if study.domain != definition.make_domain() or set(study.outputs) != set(definition.outputs):
        raise ConfigError(
            f"[inputs] and [outputs] of {path} differ from those of the served study {study.name!r}. Make them the same."
        )

    def progress(kind: str, query: Any, what: Any) -> None:
        if kind != "asked":
            came = f"→ {output.pairs(what)}" if kind == "told" else f"{kind}: {output.first_line(str(what))}"
            typer.echo(f"query {query.id}: {output.pairs(query.point)} {came}", err=as_json)

    with study, ended_like_ctrl_c():
        stopped = study.run(
            definition.simulator,
            jobs=int(jobs) if jobs.isdecimal() else jobs,
            queries=queries,
            folder=path.parent,
            progress=progress,
        )
    shown = {
        "study": study.name,
        "rule": stopped.rule,
        "reason": stopped.reason,
        "num_done": stopped.num_done,
        "num_failed": stopped.num_failed,
        "seconds": dict(stopped.seconds),
    }
    command = f"hyperleaf run {shlex.quote(str(path))} --connect {shlex.quote(study.connection.address)}"
    lines = [f"Stopped: {stopped.reason.rstrip('.')}."]
    if stopped.rule == "interrupted":
        lines.append(f"Everything told is kept. Go on with: {command}")
    return stopped, shown, "\n".join(lines)
