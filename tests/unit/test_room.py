"""Too many observations are refused before anything is computed; many are told to be slow."""

import logging

import jax
import numpy as np
import pytest

from hyperleaf.data import Dataset
from hyperleaf.errors import InferenceError
from hyperleaf.inference import METHODS, method
from hyperleaf.inference.hmc import NUTS
from hyperleaf.inference.smc import SMC
from hyperleaf.surrogates.gp import hhk_surrogate, room, stationary_surrogate


def data(num):
    x = np.linspace(0, 1, num)[:, None]
    return Dataset(x, np.sin(6 * x[:, 0]))


def test_what_does_not_fit_is_refused_with_the_numbers_and_a_remedy(monkeypatch):
    monkeypatch.setattr(room, "free_memory", lambda: 2**30)
    room.check_room(1024, 128)  # 128 factors of 8 MiB: exactly the room there is
    with pytest.raises(InferenceError, match=r"1500 .* 128 draws .* need 2\.2 GiB, and 1\.0 GiB are free.* at most 56 draws"):
        room.check_room(1500, 128)
    with pytest.raises(InferenceError, match="they need"):
        hhk_surrogate(1, 2, inference=SMC(particles=2000)).fit(data(400), key=jax.random.key(0))


def test_an_update_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    fitted = stationary_surrogate(1, inference=SMC(particles=8, chains=4, start_moves=1)).fit(data(8), key=jax.random.key(0))
    monkeypatch.setattr(room, "free_memory", lambda: 8 * 24**2 * 8)
    fitted.update([[0.5]], [0.1], key=jax.random.key(1))
    monkeypatch.setattr(room, "free_memory", lambda: 8 * 24**2 * 8 - 1)
    with pytest.raises(InferenceError, match="The data are kept"):
        fitted.update([[0.5]], [0.1], key=jax.random.key(1))


def test_many_observations_are_told_to_be_slow_once(monkeypatch, caplog):
    monkeypatch.setattr(room, "_said", set())
    with caplog.at_level(logging.WARNING, "hyperleaf"):
        room.check_room(1000, 1)
        assert not caplog.records and not room.cost_of(1000)
        room.check_room(1001, 1)
        room.check_room(1002, 1)
    assert [record.message for record in caplog.records] == [room.cost_of(1001)]


def test_a_posterior_of_many_says_so(monkeypatch):
    monkeypatch.setattr(room, "MANY", 7)
    fitted = stationary_surrogate(1, inference=SMC(particles=8, chains=4, start_moves=1)).fit(data(8), key=jax.random.key(0))
    assert any("with their cube" in sentence for sentence in fitted.diagnostics.sentences)


def test_every_method_says_how_many_draws_it_leaves():
    assert {name: method(name)().num_draws for name in METHODS} == {"smc": 128, "nuts": 1000, "hmc": 100, "map": 1, "ml": 1}
    assert NUTS(draws=10, chains=3).num_draws == 30
    assert {name: method(name)().least_draws for name in METHODS} == {
        "smc": 64.0,
        "nuts": None,
        "hmc": None,
        "map": 1.0,
        "ml": 1.0,
    }
    assert hhk_surrogate(1, 2, inference=SMC(particles=40, threshold=0.25)).least_draws == 10.0


def test_free_memory_is_less_than_all_there_is():
    free = room.free_memory()
    assert free is None or 0 <= free < 2**50


def test_the_limit_of_a_container_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "CGROUP", tmp_path)
    assert room._of_container() is None
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 500\nfile 200\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert room._of_container() is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert room._of_container() == 500 == room.free_memory()
