"""Values that are wild by their size alone, a comma lost or a sensor that returned 1e9, told by the numbers and nothing else.

They have to be known before a scale of the outputs can be, so no model has a say here; and NumPy will do, since this is asked
whenever somebody looks at a study.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 4  # values, with which anything can be said
SHARE = 5  # at most one of so many is wild, one in any case
GAP = 100.0  # how many times further out than all others
LOG_GAP = 3.0  # the same in powers of ten, of whatever base: what grows by powers reaches far and is not wild


def grossly_out(y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of y (n,) lie a hundred times further from the median than all others do, also on a logarithmic scale; the most for
    which that can be said, and never more than a fifth."""
    n = len(y)
    found = np.zeros(n, dtype=bool)
    if n < FEWEST:
        return found
    size = float(np.abs(y).max()) or 1.0
    z = y / size  # nothing overflows
    center = float(np.median(z))
    apart, tiny = np.abs(z - center), np.finfo(np.float64).tiny
    order = np.argsort(apart, kind="stable")
    magnitudes = np.log(np.abs(z) + tiny)
    for k in range(max(n // SHARE, 1), 0, -1):
        inner, outer = order[:-k], order[-k:]
        reach = max(float(apart[inner].max()), 1e-3 * abs(center))  # all others may be equal
        middle = float(np.median(magnitudes[inner]))
        above = max(float(magnitudes[inner].max()) - middle, 0.0)
        if reach > 0 and apart[outer].min() > GAP * reach and magnitudes[outer].min() - middle > LOG_GAP * above:
            found[outer] = True
            return found
    return found
