"""Hamiltonian trajectories of single particles, and the masses they move with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from numpy.typing import NDArray

from hyperleaf import native
from hyperleaf.inference.weights import STRATA
from hyperleaf.parallel import over_draws
from hyperleaf.precision import put

POWERS = (0.0, 1.0)  # of the steepness, in the charts that are taken by turns
JITTER = (-1.0, 0.3)  # of the log of the step size: particles in narrow modes need smaller steps than the rest
LogDensity = Callable[[Float[Array, "p"]], Float[Array, ""]]
Values = NDArray[np.float64]


def masses(gradient: Float[np.ndarray, "s p"]) -> Float[np.ndarray, "p"]:
    """Diagonal masses from the gradients at the particles: their mean square, each particle's share capped against outliers."""
    if len(gradient) == 0:
        return np.ones(gradient.shape[1])
    squares = np.where(np.isfinite(gradient), gradient, 0.0) ** 2
    cap = 10.0 * np.median(squares, axis=0) + 1.0
    return np.maximum(np.minimum(squares, cap).mean(axis=0), 1e-3)


def masses_of(
    z: NDArray[np.float64], gradient: NDArray[np.float64], strata: NDArray[np.int64], target: LogDensity
) -> NDArray[np.float64]:
    """Masses (w, k, p) of each chart and stratum, from the gradients in z at the particles."""
    chart = getattr(target, "chart", None)
    each = [gradient if chart is None else chart._replace(power=power).gradient(z, gradient) for power in POWERS]
    return np.array([[masses(own[strata == k]) for k in range(STRATA)] for own in each])


def trajectories(
    draws: tuple[Float[Array, "s p"], Array], target: LogDensity, step_size: Values, mass: Values, steps: int, power: float
) -> tuple[Array, Array | Values, Array | Values, Array | Values, Array | NDArray[np.int64]]:
    """`trajectory_of` for each draw (z, key), in machine code where that covers the target: from the same random numbers.

    What is only looked at stays in NumPy, for to hand it to JAX takes longer than a trajectory of few observations.
    """
    core = native.core_of(target)
    if core is None:
        return over_draws(trajectory_of, draws, target, put(step_size), put(mass), put(steps), put(power))
    z, keys = draws
    length, *rest = native.chances(keys, steps, z.shape[1], JITTER) or _chances(keys, put(steps), z.shape[1])
    jitter, normal, uniform = rest
    to, value, gradient, acceptance = core.trajectories(z, length, jitter, normal, uniform, step_size, mass, power)
    return put(to), value, gradient, acceptance, np.asarray(length) + 1


def chances(key: Array, steps: Array, size: int) -> tuple[Array, Array, Array, Array]:
    """All that is random in one trajectory: its length, the jitter of its step size, the momentum of unit mass, and the number
    that the acceptance probability has to exceed."""
    length_key, size_key, momentum_key, accept_key = jax.random.split(key, 4)
    length = jax.random.randint(length_key, (), (steps + 1) // 2, steps + 1)
    jitter = jnp.exp(jax.random.uniform(size_key, minval=JITTER[0], maxval=JITTER[1], dtype=jnp.float64))
    return (
        length,
        jitter,
        jax.random.normal(momentum_key, (size,), jnp.float64),
        jax.random.uniform(accept_key, dtype=jnp.float64),
    )


@partial(jax.jit, static_argnums=2)
def _chances(keys, steps, size):
    return jax.vmap(lambda key: chances(key, steps, size))(keys)


def trajectory_of(draw, target: LogDensity, step_size: Float[Array, "k"], mass: Float[Array, "k p"], steps: Array, power: Array):
    """One Hamiltonian trajectory of one particle: about `steps` leapfrog steps, then accept or stay. `steps` = 0 only looks.

    One that ends in another stratum is rejected; that leaves the density within each as it is, whatever step sizes and masses
    the other has.

    Length and step size are jittered, so that no direction is stuck in a period. One loop evaluates the gradient at a single
    place of the compiled code, which halves its compilation: pass i finishes the kick of step i and begins that of step i + 1.
    The steps are made in the target's chart of this power, if it has one. Returns the new z, its log density, the gradient in the
    chart, the acceptance probability and the number of gradients.
    """
    z, key = draw
    stratum = getattr(target, "stratum", lambda z: 0)
    here = stratum(z)
    step_size, mass = step_size[here], mass[here]
    length, jitter, normal, uniform = chances(key, steps, len(z))
    epsilon, momentum = step_size * jitter, jnp.sqrt(mass) * normal

    # A target that sums over a number of data sets known only at run time brings its own gradient.
    evaluate = target.value_and_grad if hasattr(target, "value_and_grad") else jax.value_and_grad(target)
    chart = target.chart._replace(power=power) if hasattr(target, "chart") else None

    def in_chart(u):
        if chart is None:
            return evaluate(u)
        z = chart.back(u)
        value, gradient = evaluate(z)
        return value + chart.log_volume(u), chart.gradient(z, gradient)

    def kinetic(momentum):
        return 0.5 * jnp.sum(momentum**2 / mass)

    def body(i, state):
        position, momentum, _, _, _, start_value, start_gradient = state
        value, gradient = in_chart(position)
        # Steep walls (a covariance on the verge of singular) give enormous gradients: such a trajectory is rejected anyway,
        # and an infinity must not become a NaN on the way.
        gradient = jnp.clip(jnp.nan_to_num(gradient, nan=0.0), -1e150, 1e150)
        start_value = jnp.where(i == 0, value, start_value)
        start_gradient = jnp.where(i == 0, gradient, start_gradient)
        momentum = momentum + jnp.where(i > 0, 0.5 * epsilon, 0.0) * gradient
        end_energy = kinetic(momentum) - value
        go_on = i < length
        momentum = momentum + jnp.where(go_on, 0.5 * epsilon, 0.0) * gradient
        position = position + jnp.where(go_on, epsilon, 0.0) * momentum / mass
        return position, momentum, end_energy, value, gradient, start_value, start_gradient

    zero = jnp.zeros((), z.dtype)
    initial = (z if chart is None else chart.into(z), momentum, zero, zero, jnp.zeros_like(z), zero, jnp.zeros_like(z))
    position, _, end_energy, end_value, gradient, start_value, start_gradient = lax.fori_loop(0, length + 1, body, initial)
    change = kinetic(momentum) - start_value - end_energy
    acceptance = jnp.exp(jnp.minimum(jnp.where(jnp.isnan(change), -jnp.inf, change), 0.0))
    if chart is not None:
        start_value, end_value = start_value - chart.log_volume(initial[0]), end_value - chart.log_volume(position)
        position = chart.back(position)
    accept = (uniform < acceptance) & (stratum(position) == here)
    value = jnp.where(accept, end_value, start_value)
    return jnp.where(accept, position, z), value, jnp.where(accept, gradient, start_gradient), acceptance, length + 1
