"""The scikit-learn façade: native units in, native units out.

`base` does what all regressors share (validation, box, output scale, prediction), `regressors` are the four models, `partition`
reads one drawn partition in native units, and `files` writes and reads a fitted regressor without pickle.
"""

from hyperleaf.estimators.base import SurrogateRegressor
from hyperleaf.estimators.partition import NativePartition
from hyperleaf.estimators.regressors import DeepRegressor, HHKRegressor, StationaryRegressor, TreedRegressor

__all__ = ["DeepRegressor", "HHKRegressor", "NativePartition", "StationaryRegressor", "SurrogateRegressor", "TreedRegressor"]
