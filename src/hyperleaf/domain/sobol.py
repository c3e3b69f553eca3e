"""Scrambled Sobol points, the same to the last bit as those of `scipy.stats.qmc.Sobol`, without loading scipy.stats, which takes
longer than the next query of a small study.

A point is a sum without carry of direction numbers, one for each bit of its index in Gray code (Joe & Kuo 2008). Scrambling
multiplies the binary digits of each direction number by a random triangular matrix, and adds random digits to every point
(Matoušek 1998).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS = 30
# From Joe and Kuo's table, for the second dimension on: a primitive polynomial, its coefficients the digits of a number, and the
# first direction numbers. With more inputs scipy.stats serves.
TABLE = """
3: 1; 7: 1 3; 11: 1 3 1; 13: 1 1 1; 19: 1 1 3 3; 25: 1 3 5 13; 37: 1 1 5 5 17; 41: 1 1 5 5 5; 47: 1 1 7 11 19; 55: 1 1 5 1 1;
59: 1 1 1 3 11; 61: 1 3 5 5 31; 67: 1 3 3 9 7 49; 91: 1 1 1 15 21 21; 97: 1 3 1 13 27 49; 103: 1 1 1 15 7 5; 109: 1 3 1 15 13 25;
115: 1 1 5 5 19 61; 131: 1 3 7 11 23 15 103; 137: 1 3 7 13 13 15 69; 143: 1 1 3 13 7 35 63; 145: 1 3 5 9 1 25 53;
157: 1 3 1 13 9 35 107; 167: 1 3 1 5 27 61 31; 171: 1 1 5 11 19 41 61; 185: 1 3 5 3 3 13 69; 191: 1 1 7 13 1 19 1;
193: 1 3 7 5 13 19 59; 203: 1 1 3 9 25 29 41; 211: 1 3 5 13 23 1 55; 213: 1 3 7 3 13 59 17; 229: 1 3 1 3 5 53 69;
239: 1 1 5 5 23 33 13; 241: 1 1 7 7 1 61 123; 247: 1 1 7 9 13 61 49; 253: 1 3 3 5 3 55 33; 285: 1 3 1 15 31 13 49 245;
299: 1 3 5 15 31 59 63 97; 301: 1 3 1 11 11 11 77 249
"""
ROWS = [row.split(":") for row in TABLE.split(";")]
MOST = len(ROWS) + 1  # dimensions


def sobol(num: int, dims: int, seed: int) -> NDArray[np.float64]:
    """The first `num` points (num, dims) of a scrambled sequence; best a power of two. A longer one begins with a shorter one."""
    if dims > MOST:
        from scipy.stats import qmc

        return np.asarray(qmc.Sobol(dims, rng=seed).random(num), dtype=np.float64)
    rng = np.random.default_rng(seed).spawn(1)[0]  # as SciPy does it
    shift = rng.integers(2, size=(dims, BITS), dtype=np.uint32) @ (np.uint32(1) << np.arange(BITS, dtype=np.uint32))
    triangles = np.tril(rng.integers(2, size=(dims, BITS, BITS), dtype=np.uint32))
    directions = [_scrambled(_directions(i), triangle) for i, triangle in enumerate(triangles)]
    index = np.arange(num, dtype=np.uint32)
    gray = index ^ (index >> np.uint32(1))
    points = np.tile(shift.astype(np.uint32), (num, 1))
    for bit in range(max(num - 1, 0).bit_length()):
        points[(gray >> np.uint32(bit)) & 1 == 1] ^= np.array([one[bit] for one in directions], dtype=np.uint32)
    return np.asarray(points * 2.0**-BITS, dtype=np.float64)


def _directions(dim: int) -> NDArray[np.uint32]:
    """The direction numbers of one dimension: the first is 0.1 in binary digits, the second has two digits, and so on."""
    if dim == 0:
        odd = [1] * BITS
    else:
        polynomial, first = int(ROWS[dim - 1][0]), ROWS[dim - 1][1]
        odd = [int(one) for one in first.split()]
        degree = len(odd)
        while len(odd) < BITS:
            found = odd[-degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    found ^= odd[-k] << k
            odd.append(found)
    return np.array([one << (BITS - 1 - i) for i, one in enumerate(odd)], dtype=np.uint32)


def _scrambled(directions: NDArray[np.uint32], triangle: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Each number with its digits, the highest first, multiplied by the triangle with ones on its diagonal."""
    places = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    digits = (directions[:, None] >> places) & np.uint32(1)
    np.fill_diagonal(triangle, 1)
    return np.asarray(((digits @ triangle.T) % 2) @ (np.uint32(1) << places), dtype=np.uint32)
