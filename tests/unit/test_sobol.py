"""Sobol points are those of SciPy, to the last bit, with and without its own code."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from hyperleaf.domain.sobol import MOST, sobol


@pytest.mark.parametrize("dims", [1, 2, 3, 7, 20, MOST, MOST + 1])
@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_the_points_are_those_of_scipy(dims, seed):
    for num in (1, 2, 64, 1024):
        np.testing.assert_array_equal(sobol(num, dims, seed), qmc.Sobol(dims, rng=seed).random(num))


def test_a_number_that_is_no_power_of_two_begins_the_same_sequence():
    np.testing.assert_array_equal(sobol(37, 4, 3), sobol(64, 4, 3)[:37])
    assert sobol(0, 4, 3).shape == (0, 4) and sobol(8, 0, 3).shape == (8, 0)


def test_every_dimension_is_filled_evenly():
    """Of 256 points each 256th of each axis holds one."""
    places = np.sort(np.floor(sobol(256, MOST, 9) * 256), axis=0)
    np.testing.assert_array_equal(places, np.arange(256.0)[:, None] * np.ones(MOST))


def test_a_design_does_not_load_scipy_stats():
    code = "import sys; from hyperleaf import Domain, Real; Domain(a=Real(0, 1)).design(8)"
    assert subprocess.run([sys.executable, "-c", f"{code}; sys.exit('scipy.stats' in sys.modules)"], check=False).returncode == 0
