"""Defining a study again: in one step, or refused; what others told meanwhile stays."""

from __future__ import annotations

from typing import Any

import pytest

from hyperleaf.config import ConfigError, parse_toml
from hyperleaf.errors import InputError
from hyperleaf.storage import NewQuery
from hyperleaf.storage.memory import MemoryStorage
from hyperleaf.study import Study

TOML = """
[study]
name = "t"
[inputs]
a = {{ low = {low}, high = 3.0 }}
[outputs]
y = {{}}
[surrogate]
kind = "treed"
total = {total}
burn_in = 10
[stop]
queries = {queries}
"""
TOLD = [NewQuery({"a": 1.0}, "added", outputs={"y": 2.0})]


def toml(total: int = 40, queries: int = 5, low: float = -1.0) -> Any:
    return parse_toml(TOML.format(total=total, queries=queries, low=low))


class Disturbed(MemoryStorage):
    """A store in which another process tells something just before, or just after, the study is defined anew."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when, self.armed = when, False

    def tell_as_another(self) -> None:
        self.armed = False
        self.append("t", TOLD, version=None, now=1.0)

    def redefine(self, name: str, definition: Any, **options: Any) -> None:
        if self.armed and self.when == "before":
            self.tell_as_another()
        super().redefine(name, definition, **options)
        if self.armed and self.when == "after":
            self.tell_as_another()


def test_what_another_process_tells_right_after_the_study_was_defined_anew_stays() -> None:
    store = Disturbed("after")
    Study.define(toml(40), storage=store)
    store.armed = True
    again = Study.define(toml(50), storage=store)
    assert len(again.record().observations) == 1, "told data vanished"
    assert again.definition.surrogate.options["total"] == 50


def test_a_study_that_another_process_began_meanwhile_is_not_defined_anew() -> None:
    store = Disturbed("before")
    first = Study.define(toml(40), storage=store)
    store.armed = True
    with pytest.raises(ConfigError, match=r"\[surrogate\].*differs.*1 queries already"):
        Study.define(toml(50), storage=store)
    assert len(first.record().observations) == 1
    assert first.record().definition["surrogate"]["total"] == 40


def test_a_stop_rule_changes_also_while_others_tell() -> None:
    store = Disturbed("before")
    Study.define(toml(queries=5), storage=store)
    store.armed = True
    again = Study.define(toml(queries=7), storage=store)
    assert again.definition.stop.queries == 7 and len(again.record().observations) == 1


def test_a_study_that_was_defined_anew_takes_nothing_from_who_still_holds_the_old_one() -> None:
    store = MemoryStorage()
    old = Study.define(toml(low=-1.0), storage=store)
    Study.define(toml(low=2.0), storage=store)
    for step in (lambda: old.ask(), lambda: old.add([{"a": 0.0, "y": 1.0}])):
        with pytest.raises(InputError, match=r"defined anew.*Open it again"):
            step()
    assert not store.read("t").queries


def test_nothing_of_the_former_definition_is_left(tmp_path) -> None:
    (tmp_path / "pool.csv").write_text("a\n0\n1\n2\n")
    address = f"sqlite:///{tmp_path / 's.db'}"
    with_pool = parse_toml(TOML.format(total=40, queries=5, low=-1.0) + '[pool]\ntable = "pool.csv"\n')
    assert Study.define(with_pool, storage=address, folder=tmp_path).pool is not None
    assert Study.define(toml(), storage=address, folder=tmp_path).pool is None
