"""Laws that hold for every mixture: affine maps, permutations, bounds and round trips."""

import numpy as np
from hypothesis import given, settings, strategies as st

from hyperleaf.mixture import Mixture

DRAWS, CANDIDATES = 5, 6  # one shape for all examples, so that nothing is compiled twice


@st.composite
def mixtures(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spread, log_std = draw(st.floats(0.0, 30.0)), draw(st.floats(0.0, 2.5))
    return Mixture(
        rng.dirichlet(np.ones(DRAWS)) + 1e-3,
        spread * rng.normal(size=(DRAWS, CANDIDATES)),
        np.exp(2 * log_std * rng.normal(size=(DRAWS, CANDIDATES))),
        rng.uniform(0.0, 1.0, DRAWS),
    )


locs = st.floats(-100.0, 100.0)
scales = st.floats(0.01, 100.0) | st.floats(-100.0, -0.01)
laws = settings(max_examples=20, deadline=None)


@laws
@given(mixtures(), locs, scales)
def test_affine_maps_shift_the_entropy_and_scale_the_rest(mixture, loc, scale):
    mapped = mixture.affine(loc, scale)
    np.testing.assert_allclose(mapped.entropy(), mixture.entropy() + np.log(abs(scale)), atol=2e-6)
    np.testing.assert_allclose(mapped.mean(), loc + scale * mixture.mean(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mapped.std(), abs(scale) * mixture.std(), rtol=1e-9)
    y = mixture.means[0] + 0.3
    np.testing.assert_allclose(mapped.log_prob(loc + scale * y), mixture.log_prob(y) - np.log(abs(scale)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mapped.crps(loc + scale * y), abs(scale) * mixture.crps(y), rtol=1e-8, atol=1e-9)
    level = 0.2 if scale > 0 else 0.8
    np.testing.assert_allclose(
        mapped.quantile(level), loc + scale * mixture.quantile(0.2), rtol=1e-8, atol=1e-7 * abs(scale) * mixture.std().max()
    )
    np.testing.assert_allclose(mapped.noisy().var(), scale**2 * mixture.noisy().var(), rtol=1e-9)


@laws
@given(mixtures(), st.permutations(range(DRAWS)), st.permutations(range(CANDIDATES)))
def test_the_order_of_draws_and_candidates_does_not_matter(mixture, draws, candidates):
    other = Mixture(mixture.weights[draws], mixture.means[draws], mixture.variances[draws]).take(candidates)
    for name, arguments in (("entropy", ()), ("mean", ()), ("quantile", (0.7,)), ("crps", (0.5,)), ("log_prob", (0.5,))):
        np.testing.assert_allclose(
            getattr(other, name)(*arguments), getattr(mixture, name)(*arguments)[candidates], rtol=1e-9, atol=1e-6
        )


@laws
@given(mixtures())
def test_entropy_lies_between_its_bounds(mixture):
    """E H(component) <= H <= min(moments, E H + H(weights)); and noise never makes an observation more certain."""
    entropy = mixture.entropy()
    within = mixture.weights @ (0.5 * np.log(2 * np.pi * np.e * mixture.variances))
    labels = -mixture.weights @ np.log(mixture.weights)
    assert np.all(entropy >= within - 2e-6)
    assert np.all(entropy <= within + labels + 2e-6)
    assert np.all(entropy <= mixture.entropy("moments") + 2e-6)
    assert np.all(mixture.noisy().entropy() >= entropy - 2e-6)


@laws
@given(mixtures(), st.floats(1e-6, 1 - 1e-6))
def test_cdf_of_the_quantile_is_the_level(mixture, level):
    np.testing.assert_allclose(mixture.cdf(mixture.quantile(level)), level, atol=1e-9)


@laws
@given(mixtures())
def test_splitting_a_component_changes_nothing(mixture):
    split = Mixture.combine([mixture, mixture], [0.3, 0.7])
    np.testing.assert_allclose(split.entropy(), mixture.entropy(), atol=2e-6)
    np.testing.assert_allclose(split.crps(0.1), mixture.crps(0.1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(split.quantile(0.9), mixture.quantile(0.9), rtol=1e-8, atol=1e-8)
