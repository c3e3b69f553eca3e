"""Whatever is done to it, in whatever order, a store in SQL behaves as one in memory."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hyperleaf.errors import HyperleafError
from hyperleaf.storage import Amendment, Kind, NewQuery, Storage, open_storage

names = st.sampled_from(["a", "b"])
owners = st.sampled_from(["me", "you"])
numbers = st.integers(0, 6)
times = st.floats(0, 1e9)
outputs = st.sampled_from([{"y": 0.1}, {"y": 0.1, "z": -1e300}, {"y": float("nan")}])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
mappings = st.dictionaries(st.text(max_size=3), json_values, max_size=3)
new_queries = st.builds(
    NewQuery,
    point=mappings,
    origin=st.sampled_from(["design", "acquisition", "added"]),
    index=st.none() | st.integers(-1, 2**63 - 1),
    score=st.none() | st.floats(-10, 10),
    note=st.text(st.characters(exclude_categories=[]), max_size=5),
    owner=st.none() | owners,
    outputs=st.none() | outputs,
    lease=st.none() | times,
)
amendments = st.builds(Amendment, numbers, st.sampled_from(list(Kind)), st.none() | outputs, st.none() | mappings)


class Comparison(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.address = f"sqlite:///{Path(self.folder.name) / 'store.db'}"
        self.memory, self.sql = open_storage(None), open_storage(self.address)
        self.both(lambda store: store.create_study("a", {}, now=0.0))

    def both(self, call: Callable[[Storage], Any]) -> None:
        """The same answer, or the same error, from both."""
        answers = []
        for store in (self.memory, self.sql):
            try:
                answers.append(call(store))
            except HyperleafError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]

    @rule(name=names, definition=mappings, now=times)
    def create(self, name: str, definition: dict, now: float) -> None:
        self.both(lambda store: store.create_study(name, definition, now=now))

    @rule(name=names, definition=mappings, late=st.booleans())
    def redefine(self, name: str, definition: dict, late: bool) -> None:
        self.both(lambda store: store.redefine(name, definition, version=store.version(name) - late))

    @rule(
        name=names,
        new=st.lists(new_queries, max_size=3),
        absorbed=st.lists(numbers, max_size=3),
        age=st.sampled_from([None, 0, 0, 1]),
        now=times,
    )
    def append(self, name: str, new: list[NewQuery], absorbed: list[int], age: int | None, now: float) -> None:
        def call(store: Storage):
            version = None if age is None else store.version(name) - age
            return store.append(name, new, version=version, absorbed=absorbed, now=now)

        self.both(call)

    @rule(name=names, number=numbers, owner=owners, now=times, lease=st.none() | times)
    def claim(self, name: str, number: int, owner: str, now: float, lease: float | None) -> None:
        self.both(lambda store: store.claim(name, number, owner, now=now, lease=lease))

    @rule(name=names, number=numbers, owner=st.none() | owners, note=st.text(max_size=3), again=st.booleans())
    def release(self, name: str, number: int, owner: str | None, note: str, again: bool) -> None:
        self.both(lambda store: store.release(name, number, owner, note=note, next_attempt=again))

    @rule(name=names, owner=owners, now=times)
    def beat(self, name: str, owner: str, now: float) -> None:
        self.both(lambda store: store.beat(name, owner, now=now))

    @rule(name=names, number=numbers, told=outputs, now=times, seconds=st.none() | times, point=st.none() | mappings)
    def tell(self, name: str, number: int, told: dict, now: float, seconds: float | None, point: dict | None) -> None:
        self.both(lambda store: store.tell(name, number, told, now=now, seconds=seconds, point=point))

    @rule(name=names, number=numbers, reason=st.text(st.characters(exclude_categories=[]), max_size=4), now=times)
    def tell_failed(self, name: str, number: int, reason: str, now: float) -> None:
        self.both(lambda store: store.tell_failed(name, number, reason, now=now))

    @rule(
        name=names,
        wanted=st.lists(amendments, min_size=1, max_size=3),
        why=st.text(max_size=3),
        age=st.sampled_from([None, None, 0, 1]),
        now=times,
    )
    def amend(self, name: str, wanted: list[Amendment], why: str, age: int | None, now: float) -> None:
        def call(store: Storage):
            version = None if age is None else store.version(name) - age
            return store.amend(name, wanted, who="me", why=why, now=now, version=version)

        self.both(call)

    @rule(name=names, number=st.integers(-1, 3), measured=mappings)
    def put_metrics(self, name: str, number: int, measured: dict) -> None:
        self.both(lambda store: store.put_metrics(name, number, measured))

    @rule(name=names, key=st.text(max_size=2), payload=st.binary(max_size=4))
    def put_artifact(self, name: str, key: str, payload: bytes) -> None:
        self.both(lambda store: store.put_artifact(name, key, payload))
        self.both(lambda store: store.artifact(name, key))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.both(lambda store: store.delete_study(name))

    @rule()
    def reopen(self) -> None:
        self.sql.close()
        self.sql = open_storage(self.address)

    @invariant()
    def same_content(self) -> None:
        assert self.memory.study_names() == self.sql.study_names()
        for name in self.memory.study_names():
            self.both(lambda store, name=name: (store.read(name), store.version(name), store.metrics(name)))

    def teardown(self) -> None:
        self.sql.close()
        self.folder.cleanup()


TestComparison = Comparison.TestCase
TestComparison.settings = settings(
    max_examples=12,
    stateful_step_count=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking takes minutes
)
