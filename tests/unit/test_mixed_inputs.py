"""Inputs of every kind: a choice, one column for each option, counts as one input in the priors."""

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.bench.tasks import task
from hyperleaf.priors import wide_priors
from hyperleaf.surrogates.named import make_surrogate

WIDTHS = (1, 1, 1, 3)


def priors_of(surrogate):
    """The middle of ln lengthscale and of ln steepness, if it has gates."""
    kernel = surrogate.model.kernel
    gates = getattr(kernel, "gates", None)
    leaf = kernel if gates is None else kernel.leaves
    return [float(np.ravel(one.base_dist.loc)[0]) for one in (leaf.lengthscale, *([] if gates is None else [gates.steepness]))]


@pytest.mark.parametrize("kind", ["hhk", "stationary"])
def test_a_choice_counts_as_one_input_and_every_option_has_a_lengthscale(kind):
    mixed, four, six = (priors_of(make_surrogate(kind, inputs)) for inputs in (WIDTHS, 4, 6))
    assert mixed == four != six and priors_of(make_surrogate(kind, (1,) * 6)) == six
    assert mixed[0] == pytest.approx(float(wide_priors(4)["lengthscale"].loc))
    kernel = make_surrogate(kind, WIDTHS).model.kernel
    assert (kernel.leaves if kind == "hhk" else kernel).lengthscale.shape()[-1] == 6


@pytest.mark.parametrize("kind", ["treed", "deep", "sklearn"])
def test_other_kinds_take_the_columns_as_they_are(kind):
    assert make_surrogate(kind, WIDTHS) == make_surrogate(kind, 6)


def test_studies_and_regressors_tell_the_surrogate_what_their_inputs_are():
    problem = task("mixed")
    domain, expected = problem.domain, [float(wide_priors(4)["lengthscale"].loc)]
    assert domain.widths == WIDTHS and sum(domain.widths) == domain.num_dims
    frame = domain.to_frame(problem.realise(0).test_x[:12])
    regressor = hl.StationaryRegressor(domain=domain, inference="map", random_state=0).fit(frame, np.arange(12.0))
    assert priors_of(regressor.learned_.posterior.surrogate) == pytest.approx(expected)
    study = hl.Study.create("mixed", domain, "y", surrogate={"kind": "stationary", "inference": "map"}, design={"size": 3})
    for query in study.ask(3):
        study.tell(query, y=float(query.point["blades"]))
    assert priors_of(study.models["y"].posterior.surrogate) == pytest.approx(expected)


@pytest.mark.long
def test_gates_tell_the_third_fluid_from_the_two_that_are_alike():
    problem = task("mixed")
    world, rows = problem.realise(0), np.random.default_rng(100).choice(1000, 60, replace=False)
    frame, test = problem.domain.to_frame(world.pool.points(rows)), problem.domain.to_frame(world.test_x)
    rmse = {}
    for leaves in (1, 8):
        regressor = hl.HHKRegressor(leaves=leaves, effort="fast", domain=problem.domain, random_state=0)
        predicted = regressor.fit(frame, world.outputs[rows]).predict(test)
        rmse[leaves] = np.sqrt(np.mean((predicted - world.test_y) ** 2)) / problem.standardizer.scale
    assert rmse[8] < 0.15 < 0.2 < rmse[1]  # 0.08 and 0.29 as measured
