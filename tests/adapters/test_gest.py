"""The generator of gest-api: the standard's own rules, failures, a store that goes on, and Xopt, which runs it."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from hyperleaf.errors import InputError

sys.path.insert(0, str(Path(__file__).parent))
from kernels_to_adapt import package

gest_api = package("gest_api", "gest")
VOCS = import_module("gest_api.vocs").VOCS
Explorer = import_module("hyperleaf.adapters.gest").Explorer

QUICK = {"surrogate": {"kind": "stationary", "inference": "map"}}
VOCS_2 = {"variables": {"a": [0.0, 2.0], "b": [-1.0, 1.0]}, "objectives": {"f": "EXPLORE"}, "constants": {"c": 3.5}}


def made(**options):
    return Explorer(VOCS(**VOCS_2), **QUICK, **options)


def run(points):
    return [{**point, "f": point["a"] * np.sin(3 * point["b"])} for point in points]


def test_it_keeps_the_rules_of_the_standard():
    generator = made(batch=2)
    assert isinstance(generator, gest_api.Generator) and generator.returns_id
    points = generator.suggest(3)
    assert len(points) == 3 and len({point["_id"] for point in points}) == 3
    for point in points:
        assert set(point) == {"a", "b", "c", "_id"} and point["c"] == 3.5
        assert 0 <= point["a"] <= 2 and -1 <= point["b"] <= 1 and isinstance(point["a"], float)
    assert len(generator.suggest(None)) == 2
    generator.ingest(run(points))
    assert generator.study.status().num_observations == 3
    generator.ingest(run(points))  # told again: nothing changes
    assert generator.study.status().num_observations == 3
    generator.ingest([{"a": 1.0, "b": 0.5, "c": 3.5, "f": 0.2, "_id": float("nan")}, {"a": 1.5, "b": 0.5, "f": 0.3}])
    assert generator.study.status().num_observations == 5
    with pytest.raises(ValueError, match="_id must be one that was suggested; got 99"):
        generator.ingest([{"a": 1.0, "b": 0.5, "f": 0.2, "_id": 99}])
    with pytest.raises(ValueError, match=r"lacks \['f'\]"):
        generator.ingest([{"a": 1.0, "b": 0.5}])
    with pytest.raises(ValueError, match="num_points must be a whole number"):
        generator.suggest(0)
    generator.finalize()


def test_vocs_that_it_cannot_serve_are_refused():
    for change, words in [
        ({"objectives": {"f": "MINIMIZE"}}, "hyperleaf explores: every objective must be"),
        ({"objectives": {}}, "there must be one; got none"),
        ({"constraints": {"g": ["LESS_THAN", 1.0]}}, "constraints are not taken"),
        ({"variables": {"a": "CONTEXTUAL"}}, "continuous with finite bounds, or discrete"),
    ]:
        with pytest.raises(ValueError, match=words):
            Explorer(VOCS(**{**VOCS_2, **change}))


def test_failures_points_that_were_moved_and_discrete_variables():
    vocs = VOCS(variables={"a": [0.0, 2.0], "m": {"x", "y"}, "k": {3, 1, 2}}, objectives={"f": "EXPLORE", "g": "EXPLORE"})
    generator = Explorer(vocs, **QUICK)
    first, second = generator.suggest(2)
    assert first["m"] in ("x", "y") and first["k"] in (1, 2, 3)
    generator.ingest([{**first, "f": float("nan"), "g": 1.0}, {**second, "a": 1.25, "f": 1.0, "g": 2.0}])
    record = generator.study.record()
    assert [query.state.name for query in record.queries] == ["FAILED", "DONE"]
    assert record.observations[-1].point["a"] == 1.25


def test_a_store_goes_on_where_it_stood(tmp_path):
    address = f"sqlite:///{tmp_path / 'runs.db'}"
    before = made(storage=address)
    open_points = before.suggest(2)
    before.ingest(run(open_points[:1]))
    after = made(storage=address)
    after.ingest(run(open_points[1:]))
    assert after.study.status().num_observations == 2
    with pytest.raises(InputError, match="of other variables or objectives"):
        Explorer(VOCS(**{**VOCS_2, "variables": {"z": [0.0, 1.0]}}), storage=address)


def test_xopt_runs_twenty_evaluations(needs):
    needs("xopt")
    xopt = import_module("xopt")
    generator = made(design=5)
    evaluator = xopt.Evaluator(function=lambda point: {"f": point["a"] * np.sin(3 * point["b"])})
    runner = xopt.Xopt(generator=generator, evaluator=evaluator)
    for _ in range(20):
        runner.step()
    assert len(runner.data) == 20 and generator.study.status().num_observations == 20
