"""Where runs fail: the probability that one succeeds, learned from those that did and those that did not.

A Gaussian-process classifier over the unit cube (Laplace approximation, one length scale found by its evidence within bounds that
a handful of failures can support). Before anything failed the probability is one everywhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]


def learn_feasibility(succeeded: Rows, failed: Rows) -> Callable[[Rows], NDArray[np.float64]] | None:
    """A function from rows of the unit cube (m, d) to the probability (m,) that a run there succeeds; None if none failed."""
    if not len(failed):
        return None
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    prior = (len(succeeded) + 1.0) / (len(succeeded) + len(failed) + 2.0)
    if not len(succeeded):
        return lambda rows: np.full(len(rows), prior)
    x = np.concatenate([succeeded, failed])
    label = np.concatenate([np.ones(len(succeeded)), np.zeros(len(failed))])
    width = 0.2 * np.sqrt(x.shape[1])
    kernel = ConstantKernel(4.0, (1.0, 25.0)) * RBF(width, (width / 4, width * 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length scale at its bound is what bounds are for
        classifier = GaussianProcessClassifier(kernel, random_state=0).fit(x, label)
    return lambda rows: classifier.predict_proba(rows)[:, 1]
