"""Kernels: `base` (what a kernel is, sums, products), `stationary` (one profile each), `partition` (gates, trees, the HHK),
`warped` (a stationary kernel of warped indices), `leaf_noise` (noise that differs from leaf to leaf of a partition)."""

from hyperleaf.kernels.base import Constant, Kernel, Linear, Product, Sum
from hyperleaf.kernels.leaf_noise import LeafNoise, leaf_noise
from hyperleaf.kernels.partition import ChangeHyperplane, ChangePoint, Gates, Partition, split_leaf, symmetric_tree
from hyperleaf.kernels.stationary import RBF, Matern12, Matern32, Matern52, Periodic, RationalQuadratic, Stationary
from hyperleaf.kernels.warped import WarpedMultiIndex

__all__ = [
    "RBF",
    "ChangeHyperplane",
    "ChangePoint",
    "Constant",
    "Gates",
    "Kernel",
    "LeafNoise",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Partition",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Stationary",
    "Sum",
    "WarpedMultiIndex",
    "leaf_noise",
    "split_leaf",
    "symmetric_tree",
]
