"""A study on a server, with the interface of `Study`: for workers anywhere, which need neither its database nor JAX."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from hyperleaf.checks import whole_number
from hyperleaf.domain import Domain
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.io import replacing
from hyperleaf.server.wire import Connection
from hyperleaf.storage import base
from hyperleaf.storage.base import Query, State

PATIENCE = "15m"
CHUNK = 2000  # points of one request


class RemoteStudy:
    """What `Study.connect` gives: ask, tell and all the rest, done by the server."""

    def __init__(self, url: str, name: str | None = None, *, token: str | None = None, patience: float | str = PATIENCE) -> None:
        self.connection = Connection(url, token, patience)
        try:
            self._open(name)
        except BaseException:
            self.close()
            raise

    def _open(self, name: str | None) -> None:
        named = self.connection.path.strip("/").split("/")
        if name is None and named[0] == "studies" and len(named) == 2:
            name = unquote(named[1])
        if name is None:
            there = [one["name"] for one in json.loads(self.connection.request("GET", "/api/v1/studies"))["studies"]]
            if len(there) != 1:
                where = f"{self.connection.address}/studies/NAME"
                raise base.StudyNotFoundError(f"one study must be named; the server has {there}. Say its name, or {where}.")
            name = there[0]
        self.name, self._path = name, f"/api/v1/studies/{quote(name, safe='')}"
        self.definition: dict[str, Any] = self._get("")
        self.domain = Domain.from_dict(self.definition["domain"])
        self.outputs = tuple(self.definition["outputs"])

    def _get(self, path: str) -> Any:
        return json.loads(self.connection.request("GET", self._path + path))

    def _post(self, path: str, once: bool = True, **values: Any) -> Any:
        return json.loads(self.connection.request("POST", self._path + path, values, once=once))

    # --- asking and telling

    def ask(self, n: int = 1, *, owner: str | None = None, lease: float | str | None = None) -> list[Query]:
        """The next n queries. `owner` says who has them and must give signs of life (`beat`) before the lease ends, 300 s by
        itself; "person", or nobody, holds them until they are told."""
        return _queries(self._post("/ask", n=whole_number("n", n), owner=owner, lease=lease))

    def suggest(self, n: int = 1) -> list[dict[str, Any]]:
        """What would be asked for, with scores; nothing changes."""
        return list(self._post("/suggest", False, n=whole_number("n", n))["suggestions"])

    def tell(
        self, query: Query | int, outputs: Mapping[str, Any] | None = None, /, *, seconds: float | None = None, **named: Any
    ) -> bool:
        """Keep what a query gave; on the server's disk when this returns. False if the same was told before."""
        point = dict(query.point) if isinstance(query, Query) else None
        values = {**(outputs or {}), **named}
        return bool(self._post(f"{_at(query)}/tell", values=values, seconds=seconds, point=point)["told"])

    def tell_failed(self, query: Query | int, reason: str, *, seconds: float | None = None, retry: bool | None = None) -> bool:
        """Say that a run failed; False if that was known, or if somebody else holds the query by now."""
        return bool(self._failed(query, reason, seconds=seconds, retry=retry)["failed"])

    def _failed(self, query: Query | int, reason: str, **options: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {"attempt": query.attempt, "owner": query.owner} if isinstance(query, Query) else {}
        return dict(self._post(f"{_at(query)}/failed", reason=str(reason)[:20_000], **asked, **options))

    def release(self, query: Query | int) -> bool:
        """Give a query back, so that it is offered again."""
        owner = query.owner if isinstance(query, Query) else None
        return bool(self._post(f"{_at(query)}/release", owner=owner)["released"])

    def repeat(self, query: Query | int, n: int = 1, *, owner: str | None = None) -> list[Query]:
        return _queries(self._post(f"{_at(query)}/repeat", n=n, owner=owner))

    def add(self, table: Any, *, note: str = "") -> list[Query]:
        """Learn from runs that were not asked for: a DataFrame or a list of dicts."""
        rows = table.to_dict("records") if hasattr(table, "to_dict") else [dict(row) for row in table]
        return _queries(self._post("/add", runs=rows, note=note))

    def beat(self, owners: Iterable[str]) -> int:
        """Signs of life of owners; how many queries they hold."""
        return int(self._post("/beat", False, owners=sorted(set(owners)))["alive"])

    # --- putting data right

    def correct(
        self,
        query: Query | int,
        values: Mapping[str, Any] | None = None,
        /,
        *,
        why: str = "",
        who: str | None = None,
        **named: Any,
    ) -> bool:
        return bool(self._post(f"{_at(query)}/correct", values={**(values or {}), **named}, why=why, who=_who(who))["changed"])

    def void(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        return self._cover("void", queries, why, who)

    def restore(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        return self._cover("restore", queries, why, who)

    def confirm(self, *queries: Query | int, why: str = "", who: str | None = None) -> bool:
        return self._cover("confirm", queries, why, who)

    def _cover(self, what: str, queries: tuple[Query | int, ...], why: str, who: str | None) -> bool:
        if not queries:
            raise InputError(f"at least one query must be named to {what}; got none.")
        return any([self._post(f"{_at(query)}/{what}", why=why, who=_who(who))["changed"] for query in queries])

    # --- looking

    def predict(self, points: Any, output: str | None = None, *, noisy: bool = False) -> Prediction:
        """The latent value of an output at points in native units, or with `noisy=True` a new observation."""
        names = self.domain.names
        plain = isinstance(points, list) and all(isinstance(row, dict) and row.keys() == {*names} for row in points)
        rows = points if plain else self.domain.to_dicts(points)  # the server checks them in any case

        def ask(quantiles: list[float]) -> list[dict[str, Any]]:
            parts = [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
            columns = [{name: [row[name] for row in part] for name in names} for part in parts]
            options = {"output": output, "noisy": noisy, "quantiles": quantiles}
            return [self._post("/predict", False, points=one, **options) for one in columns]

        return Prediction(ask)

    def snapshot(self) -> dict[str, Any]:
        """How the study stands: counts, stop rules, accuracy, noise, what is open, suspects."""
        return dict(self._get("/snapshot"))

    status = snapshot

    def query(self, number: int) -> Query:
        return _query(self._get(_at(number)))

    def history(self) -> list[dict[str, Any]]:
        return list(self._get("/history")["history"])

    def table(self) -> Any:
        """All queries as a DataFrame."""
        import pandas as pd

        return pd.read_csv(io.BytesIO(self.connection.request("GET", f"{self._path}/export.csv")))

    def report(self, path: str | Path) -> Path:
        return self._file(path, "/report")

    def save_model(self, path: str | Path, output: str | None = None) -> Path:
        return self._file(path, "/export.npz" + ("" if output is None else f"?output={quote(output, safe='')}"))

    def _file(self, path: str | Path, what: str) -> Path:
        content = self.connection.request("GET", self._path + what)
        with replacing(Path(path)) as unfinished:
            unfinished.write_bytes(content)
        return Path(path)

    def run(self, simulator: Any = None, **options: Any) -> Any:
        """Ask, simulate here and tell until a stop rule of the study is met. See `hyperleaf.server.worker.run`."""
        from hyperleaf.server.worker import run

        return run(self, simulator, **options)

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> RemoteStudy:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        try:
            counts = ", ".join(f"{num} {state}" for state, num in self.snapshot()["counts"].items() if num)
        except HyperleafError as error:
            counts = str(error)
        return f"<Study {self.name!r} at {self.connection.address}: {counts or 'nothing asked yet'}>"


class Prediction:
    """What a server predicts: means and standard deviations at once, quantiles when they are asked for."""

    def __init__(self, ask: Callable[[list[float]], list[dict[str, Any]]]) -> None:
        self._ask = ask
        self._parts = ask([])

    def _joined(self, name: str) -> Any:
        import numpy as np

        return np.array([value for part in self._parts for value in part[name]])

    def __len__(self) -> int:
        return sum(len(part["mean"]) for part in self._parts)

    def mean(self) -> Any:
        return self._joined("mean")

    def std(self) -> Any:
        return self._joined("std")

    def quantile(self, q: float) -> Any:
        import numpy as np

        return np.array([value for part in self._ask([q]) for value in next(iter(part["quantiles"].values()))])

    def interval(self, probability: float) -> tuple[Any, Any]:
        """Ends of the interval that leaves (1 - probability)/2 on either side."""
        return self.quantile(0.5 - 0.5 * probability), self.quantile(0.5 + 0.5 * probability)


def connect(url: str, name: str | None = None, *, token: str | None = None, patience: float | str = PATIENCE) -> RemoteStudy:
    """The study of that name at a server, or its only one."""
    return RemoteStudy(url, name, token=token, patience=patience)


def _at(query: Query | int) -> str:
    return f"/queries/{query.id if isinstance(query, Query) else int(query)}"


def _who(who: str | None) -> str:
    from hyperleaf.study.corrections import this_person

    return this_person() if who is None else who


def _queries(found: Mapping[str, Any]) -> list[Query]:
    return [_query(one) for one in found["queries"]]


def _query(values: Mapping[str, Any]) -> Query:
    fields = ("id", "point", "origin", "asked_at", "attempt", "score", "note", "owner", "ended_at", "seconds", "reason", "index")
    known = {name: values[name] for name in fields if name in values}
    with suppress(KeyError):
        known["epoch"] = values["epoch"]
    return Query(**{"epoch": 0, **known}, state=State(values["state"]))
