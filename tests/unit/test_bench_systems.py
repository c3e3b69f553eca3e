"""Real systems: the tables that ship, and the packages that computed them."""

import subprocess
import sys

import numpy as np
import pytest

from hyperleaf.bench.tasks import task
from hyperleaf.bench.tasks.systems import DATA, SYSTEMS
from hyperleaf.errors import InputError

COMPUTED = [name for name, system in SYSTEMS.items() if system.function is not None]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_table_is_in_its_box_free_of_repeats_and_split_by_the_seed(name):
    problem = task(name)
    rows, values = SYSTEMS[name].read()
    assert len(rows) >= 1000 and np.isfinite(values).all() and len(np.unique(rows, axis=0)) == len(rows)
    unit = problem.domain.to_unit(rows)
    assert unit.min() >= 0 and unit.max() <= 1 and (np.ptp(unit, axis=0) > 0.8).all()
    one, other = problem.realise(0), problem.realise(1)
    assert len(one.pool) + len(one.test_y) == len(rows) and problem.noise == pytest.approx(0.01 * values.std())
    assert not np.array_equal(one.test_x, other.test_x)


def test_tables_are_small():
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 250_000


@pytest.mark.parametrize("name", SYSTEMS)
def test_without_the_package_the_truth_is_the_table_and_the_message_says_what_would_tell_it(name, monkeypatch):
    from hyperleaf.bench.tasks import systems

    monkeypatch.setattr(systems, "find_spec", lambda package: None)
    problem = task(name)
    assert not problem.truth_known
    words = "hyperleaf\\[tasks\\]" if name in COMPUTED else "test_y of realise.$"
    with pytest.raises(InputError, match=f"known at its rows only.*{words}"):
        problem.truth(problem.rows[:2])


@pytest.mark.parametrize("name", COMPUTED)
def test_package_and_table_agree(name, needs):
    needs(SYSTEMS[name].package)
    apart = np.abs(SYSTEMS[name].recompute())
    # Seven digits; an ignition delay also hangs on where the integrator happens to step.
    assert np.median(apart) < 1e-5 and apart.max() < (5e-3 if name == "h2" else 1e-4)
    problem = task(name)
    assert problem.truth_known
    np.testing.assert_allclose(problem.truth(problem.rows[:5]), problem.values[:5], atol=1e-3 * problem.standardizer.scale)


def test_what_physics_says_of_the_tables():
    rows, density = SYSTEMS["co2"].read()
    assert density[(rows[:, 0] < 290) & (rows[:, 1] > 8)].min() > 700 > 300 > density[rows[:, 1] < 3].max() - 1000  # liquid, gas
    assert density[rows[:, 1] < 3].min() < 100
    rows, delay = SYSTEMS["h2"].read()
    assert (delay <= 1).all() and delay[rows[:, 0] > 1150].max() < 0 and (delay == 1).sum() > 30  # hot ignites, cold may not
    rows, lift = SYSTEMS["foil-2d"].read()
    calm = (rows[:, 0] < 8) & (rows[:, 1] > 1e6)
    slope = np.polyfit(rows[calm, 0], lift[calm], 1)[0]
    assert slope == pytest.approx(2 * np.pi * np.pi / 180, rel=0.15)  # thin airfoils: 2π per radian


def test_the_table_of_systems_loads_no_package():
    code = "import sys, hyperleaf.bench.tasks as tasks; tasks.task('co2'); tasks.task('h2'); tasks.task('foil-8d')\n"
    code += "assert not {'CoolProp', 'cantera', 'neuralfoil', 'jax', 'pandas'} & set(sys.modules), 'heavy'"
    subprocess.run([sys.executable, "-c", code], check=True)
