"""What happens to studies, whoever does it: this server, a run in another process, a person at another machine.

The store is looked at a few times a second, as long as somebody listens; when a study has changed, its record is compared with
what it was. A listener that does not keep up is told only that there was more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from hyperleaf.errors import HyperleafError
from hyperleaf.server.studies import Studies
from hyperleaf.storage.base import Observation, Query, Record, State
from hyperleaf.study.changes import words
from hyperleaf.study.snapshot import Snapshot
from hyperleaf.values import query_values

log = logging.getLogger(__name__)
PERIOD = 0.4  # seconds between two looks
WAITING = 64  # events that a listener may be behind
Event = dict[str, Any]


def between(before: Record, after: Record) -> list[Event]:
    """What happened: queries asked, told, failed, given back, and what was put right."""
    was = {query.id: query for query in before.queries}
    known = {change.number for change in before.changes}
    told = {one.query_id: one for one in after.observations}
    events = [_of_query(was.get(query.id), query, told.get(query.id)) for query in after.queries if was.get(query.id) != query]
    found = [event for event in events if event is not None]
    for change in after.changes:
        if change.number not in known:
            what = f"query {change.query_id} {words(change)}"
            found.append({"event": change.kind.value, "query": change.query_id, "who": change.who, "words": what})
    return found


def _of_query(before: Query | None, now: Query, told: Observation | None) -> Event | None:
    values = {"query": now.id, "state": now.state.value, "point": dict(now.point), "owner": now.owner}
    if now.state is State.DONE and (before is None or before.state is not State.DONE):
        return {"event": "told", **values, "outputs": {} if told is None else dict(told.outputs)}
    if now.state is State.FAILED and (before is None or before.state is not State.FAILED):
        return {"event": "failed", **values, "reason": now.reason}
    if before is not None and now.attempt > before.attempt:
        return {"event": "retried", **values, "reason": now.reason}
    if now.state is State.RUNNING and (before is None or before.owner != now.owner or before.state is not State.RUNNING):
        return {"event": "asked", **values}
    if now.state is State.WAITING and (before is None or before.state is not State.WAITING):
        return {"event": "released", **values, "reason": now.reason}
    return None  # a sign of life


class Watcher:
    """Looks at the studies to which somebody listens."""

    def __init__(self, studies: Studies, most: int) -> None:
        self._studies, self._most = studies, most
        self._listeners: dict[str, set[asyncio.Queue[Event]]] = {}
        self._seen: dict[str, Snapshot] = {}
        self._nudged = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return sum(map(len, self._listeners.values())) >= self._most

    @contextlib.contextmanager
    def listening(self, name: str, since: Snapshot) -> Any:
        """A queue of events of one study, of what happens after that snapshot."""
        self._seen.setdefault(name, since)
        queue: asyncio.Queue[Event] = asyncio.Queue(WAITING)
        self._listeners.setdefault(name, set()).add(queue)
        self.nudge()
        try:
            yield queue
        finally:
            self._listeners[name].discard(queue)
            if not self._listeners[name]:
                del self._listeners[name]
                self._seen.pop(name, None)

    def nudge(self) -> None:
        """Look at once: something was written here."""
        self._nudged.set()

    def publish(self, name: str, event: Event) -> None:
        for queue in self._listeners.get(name, ()):
            while queue.qsize() >= WAITING - 1:
                queue.get_nowait()
                event = {**event, "missed": True}
            queue.put_nowait(event)

    async def run(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nudged.wait(), PERIOD if self._listeners else None)
            self._nudged.clear()
            for name in list(self._listeners):
                try:
                    await self._look(name)
                except HyperleafError as error:  # a store that does not answer, a study that was deleted
                    self.publish(name, {"event": "trouble", "words": self._studies.words_of(error)})
                    await asyncio.sleep(5 * PERIOD)
                except Exception:  # whatever it is, others go on being watched
                    log.exception("looking at %s", name)
                    await asyncio.sleep(5 * PERIOD)
            await asyncio.sleep(0.05)  # several writes at once are one look

    async def _look(self, name: str) -> None:
        seen = self._seen.get(name)
        warm = await self._studies.quickly(lambda: self._studies.get(name))
        now = await self._studies.quickly(warm.snapshot)
        self._seen[name] = now
        if seen is None or now is seen or name not in self._listeners:
            return
        for event in between(seen.record, now.record):
            self.publish(name, {**event, "version": now.record.version})
        if now.history is not seen.history:
            self.publish(name, {"event": "measured", "version": now.record.version})


def opened(snapshot: Snapshot) -> Event:
    """What a listener hears first."""
    open_ = [query_values(query) for query in snapshot.in_state(State.RUNNING, State.WAITING)]
    counts: Mapping[str, int] = snapshot.counts
    return {"event": "opened", "version": snapshot.record.version, "counts": dict(counts), "open": open_}
