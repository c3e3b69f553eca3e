"""C code of the house, compiled by the machine's own compiler on first use (`library`), and what has no model in it: Gaussian
mixtures at many candidates (`mixtures`). Where there is no compiler, or HYPERLEAF_NATIVE is off, JAX serves."""
