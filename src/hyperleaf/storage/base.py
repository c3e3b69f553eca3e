"""The contract of every store of studies: records, and the few operations that change them, each atomic and durable.

A study is a definition and a list of queries, numbered from 1. A query that was answered has one observation. Queries move

    WAITING → RUNNING → DONE | FAILED          WAITING: nobody is at it.   RUNNING: `owner` is.
       ↑         │
       └─────────┘   released: given back, its owner died, or a failed attempt is to be repeated

and from each of these to VOID and back to what it was: a VOID query does not count, and its observation neither. What was told
can be put right (`amend`); who did so, when, why, and what stood there before is kept with the study.

An operation that changes a study either happens whole, and is on disk before it returns, or not at all; when two processes write
at once, one of them comes second and sees what the first one did. `Conflict` tells a caller that what it had read has changed
since: it reads again and decides anew. No operation waits for a person or for a simulation.

`epoch` orders what has been learned: the surrogate takes in observations in groups, and group k is all observations whose epoch
is k. An observation gets its epoch when a query is chosen with it taken into account (`append`), and keeps it, so that replaying
the groups reproduces every query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from hyperleaf.errors import HyperleafError, InputError


class StorageError(HyperleafError, RuntimeError):
    """A store cannot be reached, read or written; nothing that was told before is lost."""


class UnreachableError(StorageError):
    """A store does not answer now and may do so later."""


class LostStoreError(StorageError):
    """A store was there when it was opened, and is gone."""


class NoStoreError(StorageError):
    """There is no store at that address, and none was to be made."""


class StudyNotFoundError(InputError, LookupError):
    """No study of that name is in the store."""


class StudyExistsError(InputError):
    """A study of that name is in the store already."""


class UnknownQueryError(InputError, LookupError):
    """The study has no query of that number."""


class AlreadyToldError(InputError):
    """The query was answered before, and differently."""


class Conflict(HyperleafError):
    """The study changed since it was read; nothing was written. Read it again and decide anew."""


class State(StrEnum):
    """Of a query. Its value is what a store keeps and what tables show."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    VOID = "void"


@dataclass(frozen=True)
class NewQuery:
    """A query to be appended: its point in native units and where it came from.

    `origin` is "design", "acquisition" or "added" (data from elsewhere). `index` is the row of the pool, if there is one.
    `owner` begins it as RUNNING, with a `lease`. With `outputs` it is DONE at once.
    """

    point: Mapping[str, Any]
    origin: str
    index: int | None = None
    score: float | None = None
    note: str = ""
    owner: str | None = None
    outputs: Mapping[str, float] | None = None
    lease: float | None = None


@dataclass(frozen=True)
class Query:
    """A query as it stands. Times are seconds since 1970; `attempt` counts from 1; `epoch` is how many groups of observations
    were taken in when it was chosen. `owner` stays after the end. `reason` is why it failed or was released last, "" if DONE.
    `was` is the state of a VOID query before it was voided. `lease` is for how many seconds after its heartbeat a RUNNING query
    is its owner's whatever happens; None says nothing."""

    id: int
    point: Mapping[str, Any]
    origin: str
    state: State
    epoch: int
    asked_at: float
    attempt: int = 1
    index: int | None = None
    score: float | None = None
    note: str = ""
    owner: str | None = None
    heartbeat: float | None = None
    ended_at: float | None = None
    seconds: float | None = None
    reason: str = ""
    was: State | None = None
    lease: float | None = None


@dataclass(frozen=True)
class Observation:
    """What a query gave. `epoch` is None until a query is chosen with it taken into account. `point` is where the run was really
    made, if that is not where it was asked for."""

    query_id: int
    outputs: Mapping[str, float]
    told_at: float
    epoch: int | None = None
    point: Mapping[str, Any] | None = None


class Kind(StrEnum):
    """Of a change that puts data right."""

    CORRECTED = "corrected"
    VOIDED = "voided"
    RESTORED = "restored"
    CONFIRMED = "confirmed"


@dataclass(frozen=True)
class Amendment:
    """What is to be put right about a query. CORRECTED needs all `outputs`, and the `point` if the run was made elsewhere than it
    was asked for."""

    query_id: int
    kind: Kind
    outputs: Mapping[str, float] | None = None
    point: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Change:
    """What was put right: numbered from 1 within its study. `before` and `after` are {"outputs", "point"} of a correction,
    {"state"} of what was voided or restored; what was confirmed is {"outputs"} in `after`."""

    number: int
    query_id: int
    kind: Kind
    who: str
    at: float
    why: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]


@dataclass(frozen=True)
class Record:
    """A study as read at one moment: one consistent view. `version` grows with every change of it; `epoch` is the number of
    groups taken in. Queries and observations are ordered by query id; observations of VOID queries are apart, in `voided`."""

    name: str
    definition: Mapping[str, Any]
    created_at: float
    version: int
    epoch: int
    queries: tuple[Query, ...] = field(default=())
    observations: tuple[Observation, ...] = field(default=())
    voided: tuple[Observation, ...] = field(default=())
    changes: tuple[Change, ...] = field(default=())

    def places(self) -> dict[int, Mapping[str, Any]]:
        """Where each query's run was made, by its id: as it was told, else as it was asked for."""
        told = {one.query_id: one.point for one in self.observations if one.point is not None}
        return {query.id: told.get(query.id, query.point) for query in self.queries}


class Storage(Protocol):
    """Where studies live. Definitions, points, outputs and metrics are JSON values (numbers finite); artifacts are bytes."""

    @property
    def url(self) -> str:
        """How to reach the store again, passwords blanked out."""
        ...

    def close(self) -> None: ...

    def now(self) -> float:
        """The store's own clock, in seconds since 1970: the same for all machines at it, whatever theirs say."""
        ...

    # --- studies

    def create_study(
        self, name: str, definition: Mapping[str, Any], *, now: float, artifacts: Mapping[str, bytes] | None = None
    ) -> None:
        """With its artifacts, all or nothing; StudyExistsError if the name is taken."""
        ...

    def study_names(self) -> tuple[str, ...]:
        """Of all studies, in alphabetical order."""
        ...

    def read(self, name: str) -> Record:
        """StudyNotFoundError if there is none."""
        ...

    def view(self, name: str) -> tuple[Record, tuple[tuple[int, Mapping[str, Any]], ...]]:
        """`read` and `metrics`, both of one moment, and quick if little has changed since the last look: what is given out may be
        shared with others, and is not to be changed."""
        ...

    def version(self, name: str) -> int:
        """That of `read`, without reading everything."""
        ...

    def redefine(
        self, name: str, definition: Mapping[str, Any], *, version: int, artifacts: Mapping[str, bytes] | None = None
    ) -> None:
        """Replace the definition; Conflict unless the study is still at `version`. With `artifacts` these take the place of all
        artifacts and metrics that there were."""
        ...

    def delete_study(self, name: str) -> None:
        """With everything that belongs to it."""
        ...

    # --- queries

    def append(
        self, name: str, queries: Sequence[NewQuery], *, version: int | None, absorbed: Sequence[int] = (), now: float
    ) -> tuple[Query, ...]:
        """Number and keep these queries, in order, all or none.

        With a `version`, Conflict unless the study is still at it. `absorbed` are ids of DONE queries whose observations become
        the next epoch (the study's `epoch` grows by one if there are any); Conflict if one of them has an epoch already. The new
        queries carry the study's epoch after that. A query with `outputs` is DONE and has its observation, told `now`.
        """
        ...

    def claim(self, name: str, query_id: int, owner: str, *, now: float, lease: float | None = None) -> Query | None:
        """WAITING → RUNNING for `owner`; None if it is not WAITING (any more)."""
        ...

    def release(self, name: str, query_id: int, owner: str | None, *, note: str = "", next_attempt: bool = False) -> Query | None:
        """RUNNING of `owner` (None: of anybody) → WAITING, `reason` set to the note, `attempt` raised if said so.

        None, and nothing changes, if it is not RUNNING or is of another owner.
        """
        ...

    def beat(self, name: str, owner: str, *, now: float) -> int:
        """Set the heartbeat of all RUNNING queries of `owner`; how many there are. Does not change the version."""
        ...

    def tell(
        self,
        name: str,
        query_id: int,
        outputs: Mapping[str, float],
        *,
        now: float,
        seconds: float | None = None,
        asked: Query | None = None,
        point: Mapping[str, Any] | None = None,
    ) -> bool:
        """Keep the observation and make the query DONE, from any other state but VOID. `point` is where the run was made, if not
        where it was asked for.

        True if it was kept now; False if the same was told before (nothing changes). AlreadyToldError if something else was, or
        if the query is VOID.
        With `asked`, the query as the teller got it, UnknownQueryError if the study was made anew since and its query of that
        number is another one.
        """
        ...

    def tell_failed(
        self,
        name: str,
        query_id: int,
        reason: str,
        *,
        now: float,
        seconds: float | None = None,
        asked: Query | None = None,
    ) -> bool:
        """WAITING or RUNNING → FAILED. False if it has FAILED before (nothing changes); AlreadyToldError if it is DONE or VOID.
        `asked` as in `tell`; also False if it was of one owner and is RUNNING for another now, whose attempt it does not end."""
        ...

    def amend(
        self,
        name: str,
        amendments: Sequence[Amendment],
        *,
        who: str,
        why: str = "",
        now: float,
        version: int | None = None,
    ) -> tuple[Change, ...]:
        """Put data right, all of it or none, and keep what was changed; amendments that change nothing are left out. With a
        `version`, Conflict unless the study is still at it.

        Metrics that were measured with an observation that changes are dropped. InputError if a query to be corrected is not
        DONE, or one to be restored is not VOID.
        """
        ...

    # --- what goes with a study (does not change its version)

    def put_metrics(self, name: str, num_observations: int, values: Mapping[str, Any]) -> None:
        """Keep these under the number of observations they were measured at, in place of older ones there."""
        ...

    def metrics(self, name: str) -> tuple[tuple[int, Mapping[str, Any]], ...]:
        """Ordered by the number of observations."""
        ...

    def put_artifact(self, name: str, key: str, payload: bytes) -> None:
        """Keep some bytes under a key, in place of older ones."""
        ...

    def artifact(self, name: str, key: str) -> bytes | None: ...
