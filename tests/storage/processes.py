"""Several processes at one store: `processes.py WHAT ADDRESS [NUMBER]` does it and prints what came of it as JSON.

A program of its own, since it forks, which is unsafe in a test process full of threads.
"""

import json
import os
import random
import signal
import sqlite3
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from hyperleaf.storage import Conflict, NewQuery, State, Storage, open_storage


def together(number: int, work: Callable[[int], Any]) -> list[Any]:
    """What each of these processes gives; they start working at the same moment."""
    gate, start = os.pipe()
    children = []
    for k in range(number):
        reading, writing = os.pipe()
        if (pid := os.fork()) == 0:
            os.close(start)
            os.read(gate, 1)
            try:
                answer = {"result": work(k)}
            except BaseException:
                answer = {"error": traceback.format_exc()}
            with os.fdopen(writing, "w") as pipe:
                json.dump(answer, pipe)
            os._exit(0)
        os.close(writing)
        children.append((pid, reading))
    os.close(start)  # all of them read the end of file
    answers = []
    for pid, reading in children:
        with os.fdopen(reading) as pipe:
            answers.append(json.load(pipe))
        os.waitpid(pid, 0)
    os.close(gate)
    if errors := [answer["error"] for answer in answers if "error" in answer]:
        raise RuntimeError("\n".join(errors))
    return [answer["result"] for answer in answers]


def new() -> NewQuery:
    return NewQuery({"x": 0.5}, "design")


def tells(address: str, number: int) -> dict:
    """Each of 4 processes asks and tells its own queries, and tells those of one common list as well."""
    store = open_storage(address)
    store.create_study("s", {}, now=0.0)
    common = [query.id for query in store.append("s", [new()] * number, version=None, now=0.0)]

    def work(k: int) -> dict:
        mine = open_storage(address)
        own, first = {}, []
        for number in common:
            (query,) = mine.append("s", [new()], version=None, now=1.0)
            mine.tell("s", query.id, {"y": k + query.id / 7}, now=2.0)
            own[query.id] = k + query.id / 7
            if mine.tell("s", number, {"y": 1.0}, now=2.0):
                first.append(number)
        return {"own": own, "first": first}

    results = together(4, work)
    record = store.read("s")
    return {
        "results": results,
        "ids": [query.id for query in record.queries],
        "states": sorted({query.state for query in record.queries}),
        "observations": [[o.query_id, o.outputs["y"]] for o in record.observations],
    }


def studies(address: str, number: int) -> dict:
    """Each of 8 processes asks and tells so many queries of one study, as people and workers do."""
    import hyperleaf as hl

    domain = hl.Domain(a=hl.Real(0, 1), b=hl.Real(0, 1))
    hl.Study.create("s", domain, "y", storage=address, design=8 * number, surrogate="stationary")

    def work(k: int) -> list[int]:
        study, mine = hl.Study.load("s", address), []
        for _ in range(number):
            (query,) = study.ask()
            study.tell(query, y=query.point["a"] + query.id)
            mine.append(query.id)
        return mine

    results = together(8, work)
    record = hl.Study.load("s", address).record()
    points = {query.id: query.point for query in record.queries}
    assert all(one.outputs["y"] == points[one.query_id]["a"] + one.query_id for one in record.observations)
    return {
        "told": sorted(one.query_id for one in record.observations),
        "asked": sorted(number for mine in results for number in mine),
        "different": len({tuple(point.values()) for point in points.values()}),
        "states": sorted({query.state for query in record.queries}),
    }


def claims(address: str, number: int) -> list[list[int]]:
    store = open_storage(address)
    store.create_study("s", {}, now=0.0)
    ids = [query.id for query in store.append("s", [new()] * number, version=None, now=0.0)]

    def work(k: int) -> list[int]:
        mine = open_storage(address)
        return [number for number in ids if mine.claim("s", number, f"process {k}", now=1.0) is not None]

    results = together(4, work)
    owners = {query.id: query.owner for query in store.read("s").queries}
    assert all(owners[number] == f"process {k}" for k, mine in enumerate(results) for number in mine)
    return results


def conflicts(address: str, number: int) -> list[list[bool]]:
    """Two processes that have read the same version append; who had a conflict."""
    store = open_storage(address)
    store.create_study("s", {}, now=0.0)
    rounds = []
    for _ in range(number):
        version = store.version("s")

        def work(k: int, version: int = version) -> bool:
            try:
                open_storage(address).append("s", [new()], version=version, now=1.0)
            except Conflict:
                return True
            return False

        rounds.append(together(2, work))
    assert len(store.read("s").queries) == number
    return rounds


def openings(address: str, number: int) -> list[list[str]]:
    """Four processes open a store which is not there yet, at once; in each round the {} in the address is another number."""
    import hyperleaf.storage.migrations  # noqa: F401  # loaded before the race, which would be one of imports

    def race(there: str) -> list[str]:
        together(4, lambda k: open_storage(there).create_study(f"study {k}", {}, now=0.0))
        return list(open_storage(there).study_names())

    return [race(address.replace("{}", str(round_))) for round_ in range(number)]


def forked(address: str, number: int) -> list[int]:
    """A store opened before the fork is used by the children and by the parent."""
    store = open_storage(address)
    store.create_study("s", {}, now=0.0)
    for _ in range(3):

        def work(k: int) -> int:
            for _ in range(number):
                store.append("s", [new()], version=None, now=1.0)
            return len(store.read("s").queries)

        together(2, work)
        store.append("s", [new()], version=None, now=1.0)
    return [query.id for query in store.read("s").queries]


def crashes(address: str, number: int) -> dict:
    """A process asks and tells and is killed at a random moment, again and again. What it said it had told must be there."""
    store = open_storage(address)
    store.create_study("s", {}, now=0.0)
    chance = random.Random(number)
    acknowledged: dict[int, float] = {}
    interrupted = 0
    for round_ in range(number):
        acknowledged |= dict(_killed(address, round_, chance))
        # What a new process finds. A query that was running is offered again.
        found = open_storage(address)
        record = found.read("s")
        _check(record, acknowledged)
        for query in record.queries:
            if query.state is State.RUNNING:
                interrupted += 1
                assert query.owner == f"round {round_}"
                assert found.release("s", query.id, query.owner, note="its process died") is not None
            if query.state is not State.DONE:
                assert found.claim("s", query.id, "rescuer", now=1.0) is not None
                assert found.tell("s", query.id, {"y": query.id / 3}, now=2.0)
        found.close()
        if address.startswith("sqlite:"):
            _check_file(address)
    _check(store.read("s"), acknowledged)
    return {"acknowledged": len(acknowledged), "interrupted": interrupted}


def _killed(address: str, round_: int, chance: random.Random) -> list[tuple[int, float]]:
    """All that a process acknowledged that was killed somewhere in its opening, or in its first few asks and tells."""
    reading, writing = os.pipe()
    started = time.monotonic()
    if (pid := os.fork()) == 0:
        try:
            _ask_and_tell(open_storage(address), f"round {round_}", writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        complete = chance.randrange(4)
        lines = [pipe.readline() for _ in range(complete)]
        time.sleep(chance.uniform(0.0, 1.2) * (time.monotonic() - started) / max(1, complete))  # about as long as one more takes
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status) and all(lines), "it was to end by the signal only"
        lines.extend(pipe)
    return [tuple(json.loads(line)) for line in lines]


def _ask_and_tell(store: Storage, owner: str, pipe: int) -> None:
    while True:
        (query,) = store.append("s", [NewQuery({"x": 0.5}, "design", owner=owner)], version=None, now=1.0)
        assert store.tell("s", query.id, {"y": query.id / 3}, now=2.0)
        os.write(pipe, f"[{query.id}, {query.id / 3!r}]\n".encode())


def _check(record: Any, acknowledged: dict[int, float]) -> None:
    observed = [(o.query_id, o.outputs["y"]) for o in record.observations]
    assert acknowledged.items() <= set(observed), "something acknowledged is lost"
    assert len(observed) == len({number for number, _ in observed}), "something is doubled"
    assert all(value == number / 3 for number, value in observed)
    assert [query.id for query in record.queries] == list(range(1, len(record.queries) + 1))
    assert {query.id for query in record.queries if query.state is State.DONE} == {number for number, _ in observed}


def _check_file(address: str) -> None:
    with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


if __name__ == "__main__":
    what = {f.__name__: f for f in (tells, studies, claims, conflicts, openings, forked, crashes)}[sys.argv[1]]
    print(json.dumps(what(sys.argv[2], int(sys.argv[3]))))
