"""The scikit-learn façade: native units in, native units out.

`base` does what all regressors share (box, output scale, learning on, answers), `regressors` are the five models, `tables` reads
what users hand in, `partition` shows one drawn partition in native units, and `files` keeps a fitted regressor without pickle.
"""

from hyperleaf.estimators.base import SurrogateRegressor
from hyperleaf.estimators.partition import NativePartition
from hyperleaf.estimators.regressors import (
    DeepRegressor,
    HHKRegressor,
    StationaryRegressor,
    TreedRegressor,
    WarpedRegressor,
)

__all__ = [
    "DeepRegressor",
    "HHKRegressor",
    "NativePartition",
    "StationaryRegressor",
    "SurrogateRegressor",
    "TreedRegressor",
    "WarpedRegressor",
]
