"""Does every update of the deep GP's chain leave its posterior invariant? Tolerances are multiples of a Monte-Carlo error."""

from functools import partial

import numpy as np
import pytest

from hyperleaf.surrogates.deep.gaussian import CORRELATIONS, JITTER, cholesky, solve_lower
from hyperleaf.surrogates.deep.sampler import (
    GammaPrior,
    Model,
    State,
    elliptical_slice,
    make_state,
    sweep,
    update_nodes,
    update_nugget,
    update_scale,
    update_theta,
)

LIMIT = 4.5  # standard errors; some thirty comparisons a test


def batch_error(trace: np.ndarray, batches: int = 50) -> np.ndarray:
    """Standard error of the mean of a correlated trace (length, …), by batch means."""
    means = np.stack([part.mean(axis=0) for part in np.array_split(trace, batches)])
    return means.std(axis=0, ddof=1) / np.sqrt(batches)


def test_elliptical_slice_sampling_samples_a_conjugate_posterior():
    rng = np.random.default_rng(0)
    prior = np.array([[1.0, 0.8, 0.3], [0.8, 1.0, 0.6], [0.3, 0.6, 1.0]])
    root, y, noise = np.linalg.cholesky(prior), np.array([1.5, -0.5, 2.0]), np.array([0.05, 0.5, 2.0])
    cov = np.linalg.inv(np.linalg.inv(prior) + np.diag(1 / noise))
    mean = cov @ (y / noise)

    def likelihood(w):
        return -0.5 * float(((w - y) ** 2 / noise).sum()), ()

    w, trace = np.zeros(3), []
    value = likelihood(w)[0]
    for _ in range(20_000):
        w, value, _, _ = elliptical_slice(w, root @ rng.standard_normal(3), likelihood, value, rng)
        trace.append(w)
    trace = np.array(trace)
    centred = trace - mean
    outer = (centred[:, :, None] * centred[:, None, :]).reshape(-1, 9)
    assert (np.abs(centred.mean(0)) < LIMIT * batch_error(centred)).all()
    assert (np.abs(outer.mean(0) - cov.ravel()) < LIMIT * batch_error(outer)).all()
    assert (batch_error(centred) < 0.03).all()  # the test can tell


def model_of(layers: int, **options) -> Model:
    x = np.array([[0.05, 0.9], [0.3, 0.2], [0.7, 0.6], [0.95, 0.1], [0.5, 0.5]])
    return Model(
        x=x,
        y=np.array([0.3, -1.0, 0.5, 1.2, -0.9]),
        correlation=CORRELATIONS["matern52"],
        # Less heavy near 0 and near infinity than the defaults, so that moments are estimated quickly.
        hidden_priors=(GammaPrior(3.0, 4.0),) * (layers - 1),
        theta_prior=GammaPrior(3.0, 2.0),
        nugget_prior=GammaPrior(3.0, 20.0),
        **options,
    )


def prior_draw(model: Model, rng: np.random.Generator) -> tuple[Model, State]:
    """(Θ, W, y) from the joint distribution.

    With p(τ²) ∝ 1/τ² integrated out only the direction of y has a proper distribution, the angular central Gaussian with
    density ∝ |K|^−½ (uᵀK⁻¹u)^(−n/2): that of a Gaussian vector divided by its length.
    """

    def gamma(prior):
        return float(rng.gamma(prior.shape, 1.0 / prior.rate))

    inputs, hidden, scales = model.x, [], []
    for prior in model.hidden_priors:
        thetas = tuple(gamma(prior) for _ in range(model.x.shape[1]))
        columns = [covariance_root(inputs, theta, JITTER) @ rng.standard_normal(len(inputs)) for theta in thetas]
        inputs = np.asfortranarray(np.column_stack(columns))
        hidden.append(inputs)
        scales.append(thetas)
    theta, nugget = gamma(model.theta_prior), gamma(model.nugget_prior)
    y = covariance_root(inputs, theta, nugget) @ rng.standard_normal(len(inputs))
    model = Model(**{**vars(model), "y": y / np.linalg.norm(y)})
    return model, make_state(model, tuple(hidden), tuple(scales), theta, nugget)


def covariance_root(inputs: np.ndarray, theta: float, diagonal: float) -> np.ndarray:
    s = np.sqrt(5 * ((inputs[:, None] - inputs) ** 2).sum(-1) / theta)
    return np.linalg.cholesky((1 + s + s**2 / 3) * np.exp(-s) + diagonal * np.eye(len(inputs)))


def features(model: Model, state: State) -> np.ndarray:
    """Functions of (Θ, W, y) whose means must not drift."""
    factor = cholesky(model.correlation, state.squared[-1], state.theta, state.nugget)
    z = solve_lower(factor, model.y)
    values = [np.log(state.nugget), state.nugget, np.log(state.theta), state.theta, np.log(z @ z), state.log_likelihood]
    values += [state.log_likelihood * np.log(state.theta)]
    inputs = model.x
    for nodes, scales in zip(state.hidden, state.scales, strict=True):
        # wᵀK⁻¹w is chi-squared under the joint distribution, and grows where θ, w and the inputs do not belong together.
        for w, scale in zip(nodes.T, scales, strict=True):
            values.append(np.log(np.square(np.linalg.solve(covariance_root(inputs, scale, JITTER), w)).sum()))
        inputs = nodes
        values += [np.log(scales[0]), scales[0], np.log(scales[1]), np.log(scales[0]) ** 2, np.log(scales[0]) * np.log(scales[1])]
        values += [nodes[0, 0] ** 2, nodes[0, 0] * nodes[1, 0], np.log((nodes[0, 0] - nodes[1, 0]) ** 2), nodes[2, 1] ** 2]
        values += [nodes[0, 0] * nodes[0, 1], np.log(scales[0]) * nodes[0, 0] * nodes[1, 0]]
    return np.array(values)


UPDATES = {
    "nugget": (2, update_nugget),
    "theta": (2, update_theta),
    "scale": (2, partial(update_scale, layer=0, column=0)),
    "nodes": (2, partial(update_nodes, layer=0, column=0)),
    "inner scale": (3, partial(update_scale, layer=0, column=0)),
    "inner nodes": (3, partial(update_nodes, layer=0, column=0)),
    "one-layer sweep": (1, sweep),
    "sweep": (2, sweep),
    "three-layer sweep": (3, sweep),
}


def drift(name: str, replicates: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean changes of the features over some steps from exact joint draws, in standard errors; and those errors."""
    layers, update = UPDATES[name]
    rng, changes = np.random.default_rng(seed), []
    for _ in range(replicates):
        model, state = prior_draw(model_of(layers), rng)
        before = features(model, state)
        for _ in range(steps):
            state, _ = update(state, model, rng)
        changes.append(features(model, state) - before)
    changes = np.array(changes)
    errors = changes.std(axis=0, ddof=1) / np.sqrt(replicates)
    moved = errors > 0
    return changes.mean(axis=0)[moved] / errors[moved], errors


@pytest.mark.parametrize("name", UPDATES)
def test_each_update_keeps_the_joint_distribution_of_parameters_and_data(name):
    """Geweke's joint test with independent replicates: start from the joint prior of parameters and data, update, compare."""
    scores, _ = drift(name, *((300, 4) if "sweep" in name or "inner" in name else (2000, 6)), seed=1)
    assert len(scores) >= 2 and np.abs(scores).max() < LIMIT


@pytest.mark.long
@pytest.mark.parametrize("name", UPDATES)
def test_each_update_keeps_the_joint_distribution_at_length(name):
    scores, _ = drift(name, replicates=6000, steps=8, seed=2)
    assert np.abs(scores).max() < LIMIT


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_without_a_likelihood_the_chain_samples_the_prior(layers):
    rng, model = np.random.default_rng(3), model_of(layers, likelihood_off=True)
    _, state = prior_draw(model, rng)
    trace = []
    for _ in range(1000 if layers == 3 else 4000):
        state, _ = sweep(state, model, rng)
        row = [state.nugget, state.theta, state.nugget**2, state.theta**2]
        for nodes, scales in zip(state.hidden, state.scales, strict=True):
            row += [scales[0], scales[1], nodes[0, 0], nodes[3, 1], nodes[0, 0] ** 2, nodes[3, 1] ** 2]
        trace.append(row)
    trace = np.array(trace)
    # Gamma(a, rate b) has mean a/b and second moment a(a + 1)/b²; a node N(0, 1).
    expected = [3 / 20, 3 / 2, 12 / 400, 12 / 4] + [3 / 4, 3 / 4, 0.0, 0.0, 1.0, 1.0] * (layers - 1)
    assert (np.abs(trace.mean(0) - expected) < LIMIT * batch_error(trace)).all()
    assert (batch_error(trace) < 0.5).all()  # the test can tell
