"""Data put right in Python: what changes, what stays, what is refused, and where it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hyperleaf as hl
from hyperleaf.errors import InputError, NotFittedYetError
from hyperleaf.storage import AlreadyToldError, UnknownQueryError, open_storage
from hyperleaf.study import Study

DOMAIN = hl.Domain(speed=hl.Real(0, 3000, unit="1/min"), gear=hl.Integer(1, 5))
MAP = {"kind": "stationary", "inference": {"kind": "map", "restarts": 1}}


def begun(num: int = 3, storage=None, **options) -> Study:
    study = Study.create("bench", DOMAIN, ["torque", "heat"], surrogate=MAP, design=3, storage=storage, **options)
    for _ in range(num):
        (query,) = study.ask(owner="person")
        study.tell(query, torque=query.point["speed"] / 100.0, heat=float(query.id))
    return study


def test_a_correction_names_only_what_was_wrong() -> None:
    study = begun()
    assert study.correct(2, torque=12.5, why="comma lost", who="ann")
    assert study.record().observations[1].outputs == {"torque": 12.5, "heat": 2.0}
    assert not study.correct(2, torque=12.5)
    (change,) = study.record().changes
    assert (change.who, change.why, change.query_id) == ("ann", "comma lost", 2)


@pytest.mark.parametrize(
    ("number", "values", "error", "words"),
    [
        (9, {"torque": 1.0}, UnknownQueryError, "no query 9"),
        (1, {}, InputError, "must name an output or an input"),
        (1, {"power": 1.0}, InputError, "'power' is no output"),
        (1, {"torque": float("inf")}, InputError, "finite"),
        (1, {"speed": 9999.0}, InputError, "query 1: .*3000"),
        (4, {"torque": 1.0}, InputError, "query 4 is running. Tell it"),
    ],
)
def test_a_correction_that_cannot_be_is_explained(number: int, values: dict, error: type, words: str) -> None:
    study = begun()
    study.ask(owner="person")
    with pytest.raises(error, match=words):
        study.correct(number, values)
    assert study.record().changes == ()


def test_telling_otherwise_is_refused_with_the_remedy() -> None:
    study = begun(1)
    with pytest.raises(AlreadyToldError, match="hyperleaf correct 1"):
        study.tell(1, torque=0.0, heat=0.0)


def test_what_was_set_is_kept_beside_what_was_asked() -> None:
    study = begun(2)
    (query,) = study.ask()
    assert study.tell(query, torque=1.0, heat=1.0, speed=1005.0)
    record = study.record()
    assert record.queries[2].point == query.point and record.observations[2].point == {**query.point, "speed": 1005.0}
    assert not study.tell(query, torque=1.0, heat=1.0, speed=1005.0)
    row = study.table().iloc[2]
    assert row["speed"] == 1005.0 and row["asked"] == f"speed={query.point['speed']:.10g}"
    with pytest.raises(InputError, match="query 3: "):
        study.tell(query, torque=1.0, heat=1.0, speed=4000.0)


def test_a_voided_run_counts_no_more_and_is_not_lost() -> None:
    study = begun(4)
    study.void(2, 3, why="sensor off", who="ann")
    table = study.table()
    assert list(table["state"]) == ["done", "void", "void", "done"]
    assert table["torque"].isna().tolist() == [False, True, True, False]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d ann voided: sensor off", table["changes"][1])
    assert study.status().num_observations == 2 and study.status().counts["void"] == 2
    assert len(study.models["heat"].y) == 2
    study.restore(2, 3)
    assert study.table()["torque"].notna().all() and len(study.models["heat"].y) == 4


def test_with_nothing_left_it_says_so() -> None:
    study = begun(3)
    study.void(1, 2, 3)
    with pytest.raises(NotFittedYetError):
        study.predict([{"speed": 1.0, "gear": 1}])
    assert study.ask()[0].id == 4  # and goes on


def test_a_voided_failure_no_longer_keeps_queries_away() -> None:
    study = begun(3)
    (query,) = study.ask()
    study.tell_failed(query, "mesh")
    points = [dict(query.point)]
    assert study.feasibility(points)[0] < 1
    study.void(query, why="somebody stopped it")
    assert study.feasibility(points)[0] == 1


def test_an_open_query_that_was_voided_is_not_asked_for_again() -> None:
    study = begun(3)
    (query,) = study.ask()
    study.void(query, why="would break the rig")
    (other,) = study.ask()
    assert other.point != query.point
    with pytest.raises(AlreadyToldError, match="restore"):
        study.tell(query, torque=1.0, heat=1.0)


def test_a_repeat_is_the_same_setting_and_shows_the_noise() -> None:
    study = begun(3)
    first, second = study.repeat(2, 2)
    assert first.point == second.point == study.record().queries[1].point
    assert (first.origin, first.note) == ("repeat", "repeats query 2")
    for query, heat in ((first, 2.5), (second, 1.5)):
        study.tell(query, torque=0.0, heat=heat)
    repeats = study.status().noise["heat"].repeats
    assert repeats is not None and (repeats.points, repeats.freedom, repeats.std) == (1, 2, 0.5)
    with pytest.raises(UnknownQueryError):
        study.repeat(99)


def test_accuracy_is_measured_again_for_every_epoch_that_changed() -> None:
    study = begun(5)
    study.ask()
    before = study.history()
    study.correct(1, heat=77.0)
    assert study.history() == []
    study.measure()
    after = study.history()
    assert [num for num, _ in after] == [num for num, _ in before]
    assert all(one[1]["heat"] != other[1]["heat"] for one, other in zip(before, after, strict=True))


def test_a_snapshot_shows_what_was_put_right_and_writes_nothing(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/s.db"
    study = begun(5, address)
    study.ask()
    before = study.history()
    study.correct(1, heat=77.0, who="ann")
    study.void(4)
    content = (study.storage.metrics("bench"), study.storage.artifact("bench", "learned"), study.storage.version("bench"))
    seen = study.snapshot(learn=True)
    study.accuracy(), study.predict([{"speed": 1.0, "gear": 1}]), study.report(tmp_path / "r.html")
    assert (study.storage.metrics("bench"), study.storage.artifact("bench", "learned"), study.storage.version("bench")) == content
    assert seen.counts["void"] == 1 and [change.who for change in seen.status().changes][:1] == ["ann"]
    assert seen.record.voided[0].query_id == 4 and len(seen.models["heat"].y) == 4
    assert len(seen.history) == len({num for num, _ in seen.history}) and seen.history[-1][0] == 4 < before[-1][0]
    study.measure()
    assert tuple(study.history()) == seen.history


def test_a_cache_of_what_was_learned_from_wrong_data_is_not_used(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/s.db"
    study = begun(4, address)
    study.ask()
    study.save()
    Study(open_storage(address), "bench").correct(1, torque=500.0)
    grid = [{"speed": 100.0, "gear": 2}]
    fresh = Study(open_storage(address), "bench")
    assert fresh.predict(grid).mean()[0] == study.predict(grid).mean()[0]
    assert 500.0 in fresh.models["torque"].y


def test_failures_in_a_row_do_not_count_what_was_voided() -> None:
    study = begun(3, failures={"limit": 2})
    for _ in range(2):
        (query,) = study.ask()
        study.tell_failed(query, "mesh")
    assert any(rule.rule == "failures" and rule.met for rule in study.status().rules)
    study.void(5)
    assert not any(rule.met for rule in study.status().rules)


def test_changes_are_on_the_page(tmp_path: Path) -> None:
    study = begun(5)
    study.correct(1, heat=3.5, why="<b>typo</b>", who="ann")
    study.void(2, why="sensor off", who="bob")
    page = study.report(tmp_path / "r.html").read_text()
    assert "What was put right" in page and "1 voided" in page
    assert "corrected: heat 1 → 3.5 (&lt;b&gt;typo&lt;/b&gt;)" in page and "<b>typo</b>" not in page
    assert "bob" in page and "voided: sensor off" in page
    assert "What was put right" not in begun(3).report(tmp_path / "s.html").read_text()
