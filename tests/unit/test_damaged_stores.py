"""What lies damaged in a store: a cache is made anew, everything else is a sentence that says where."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.errors import HyperleafError
from hyperleaf.storage import AlreadyToldError, StorageError
from hyperleaf.study import Study
from hyperleaf.study.learning import ARTIFACT, pack, unpack

TREED = {"kind": "treed", "burn_in": 10, "total": 40, "warm_burn_in": 10}
POINTS = [{"a": 0.3}]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("store") / "s.db"
    study = Study.create(
        "s",
        hl.Domain(a=hl.Real(-1, 3)),
        "y",
        storage=f"sqlite:///{file}",
        surrogate=TREED,
        acquisition="variance",
        design=3,
        pool=[{"a": i / 10} for i in range(20)],
        test=[{"a": 0.5, "y": 1.0}, {"a": 1.5, "y": 2.0}],
    )
    study.run(lambda a: math.sin(a), queries=5)
    study.storage.close()
    return file


@pytest.fixture
def file(finished: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "s.db"
    copy.write_bytes(finished.read_bytes())
    return copy


def load(file: Path) -> Study:
    return Study.load("s", f"sqlite:///{file}")


def test_a_damaged_cache_is_learned_again(file: Path) -> None:
    study = load(file)
    expected = study.predict(POINTS).means
    payload = study.storage.artifact("s", ARTIFACT)
    assert payload is not None
    rng = random.Random(0)
    for _ in range(60):
        damaged = bytearray(payload)
        for _ in range(rng.randrange(1, 20)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if bytes(damaged) != payload:
            assert unpack(bytes(damaged), study.record().definition) is None
    for damaged in (b"", payload[:-1], payload[: len(payload) // 2], payload + b"x", b"\0" * 100, payload[1:]):
        assert unpack(damaged, study.record().definition) is None
    study.storage.put_artifact("s", ARTIFACT, bytes(damaged))
    np.testing.assert_array_equal(load(file).predict(POINTS).means, expected)


def test_an_intact_cache_is_read_to_the_last_bit(file: Path) -> None:
    study = load(file)
    payload = study.storage.artifact("s", ARTIFACT)
    known = unpack(payload or b"", study.record().definition)
    assert known is not None and pack(known) == payload


DAMAGES = {
    "definition is no JSON": "UPDATE hyperleaf_studies SET definition = '{\"study\": '",
    "definition is a list": "UPDATE hyperleaf_studies SET definition = '[1, 2]'",
    "definition is empty": "UPDATE hyperleaf_studies SET definition = '{}'",
    "definition has a wrong value": """UPDATE hyperleaf_studies SET definition = replace(definition, 'treed', 'tree')""",
    "version is text": "UPDATE hyperleaf_studies SET version = 'x'",
    "epoch is text": "UPDATE hyperleaf_studies SET epoch = 'x'",
    "point is no JSON": "UPDATE hyperleaf_queries SET point = '{' WHERE number = 2",
    "point is a list": "UPDATE hyperleaf_queries SET point = '[1]' WHERE number = 2",
    "point lacks an input": "UPDATE hyperleaf_queries SET point = '{\"b\": 1.0}' WHERE number = 2",
    "point is text": 'UPDATE hyperleaf_queries SET point = \'{"a": "high"}\' WHERE number = 2',
    "point is not finite": "UPDATE hyperleaf_queries SET point = '{\"a\": NaN}' WHERE number = 2",
    "point lies outside": "UPDATE hyperleaf_queries SET point = '{\"a\": 1e30}' WHERE number = 2",
    "time is text": "UPDATE hyperleaf_queries SET asked_at = 'noon' WHERE number = 2",
    "end is text": "UPDATE hyperleaf_queries SET ended_at = 'noon' WHERE number = 2",
    "attempt is text": "UPDATE hyperleaf_queries SET attempt = 'first' WHERE number = 2",
    "reason is bytes": "UPDATE hyperleaf_queries SET reason = x'80' WHERE number = 2",
    "outputs are no JSON": "UPDATE hyperleaf_observations SET outputs = 'y' WHERE query_number = 2",
    "outputs are a number": "UPDATE hyperleaf_observations SET outputs = '1' WHERE query_number = 2",
    "outputs lack a name": "UPDATE hyperleaf_observations SET outputs = '{\"z\": 1.0}' WHERE query_number = 2",
    "an output is not finite": "UPDATE hyperleaf_observations SET outputs = '{\"y\": Infinity}' WHERE query_number = 2",
    "an output is null": "UPDATE hyperleaf_observations SET outputs = '{\"y\": null}' WHERE query_number = 2",
    "metrics are no JSON": "UPDATE hyperleaf_metrics SET measured = '{'",
    "metrics are a number": "UPDATE hyperleaf_metrics SET measured = '7'",
    "metrics are of something else": "UPDATE hyperleaf_metrics SET measured = '{\"y\": 7}'",
    "metrics are incomplete": 'UPDATE hyperleaf_metrics SET measured = \'{"y": {"scale": 1.0}}\'',
    "metrics are texts": """UPDATE hyperleaf_metrics
        SET measured = '{"y": {"expected_rmse": "a", "trusted_rmse": 1, "scale": 1}}'""",
    "pool is no JSON": "UPDATE hyperleaf_artifacts SET payload = x'80ff' WHERE key = 'pool'",
    "pool is of another domain": "UPDATE hyperleaf_artifacts SET payload = CAST('[{\"b\": 1}]' AS BLOB) WHERE key = 'pool'",
    "pool is text": "UPDATE hyperleaf_artifacts SET payload = 'text' WHERE key = 'pool'",
    "test table is no JSON": "UPDATE hyperleaf_artifacts SET payload = x'5b' WHERE key = 'test'",
    "test table lacks an output": """UPDATE hyperleaf_artifacts
        SET payload = CAST('[[{"a": 1}, {}]]' AS BLOB) WHERE key = 'test'""",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda name: name.replace(" ", "-"))
def test_what_is_damaged_is_said_in_a_sentence(damage: str, file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        assert connection.execute(DAMAGES[damage]).rowcount > 0
    seen: list[HyperleafError] = []
    for step in (
        lambda: load(file).status(),
        lambda: load(file).table(),
        lambda: load(file).metrics(),
        lambda: load(file).history(),
        lambda: load(file).predict(POINTS),
        lambda: load(file).ask(2),
        lambda: load(file).tell(2, y=1.0),
    ):
        try:
            step()
        except AlreadyToldError:
            pass
        except HyperleafError as error:
            seen.append(error)
    assert seen, "nobody noticed"
    assert all(str(error).strip().endswith((".", ")")) and "\n" not in str(error) for error in seen), seen
    if damage not in ("point lies outside", "point is text"):  # the domain's own words
        assert any(isinstance(error, StorageError) and "damaged" in str(error) for error in seen), seen
