"""Effort in one word: the same word reaches the sampler from every door, and is refused where it would do nothing."""

import pytest

from hyperleaf.cli.app import Effort
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import InputError
from hyperleaf.estimators import HHKRegressor, StationaryRegressor, WarpedRegressor
from hyperleaf.inference.hmc import NUTS
from hyperleaf.inference.smc import EFFORTS, SMC
from hyperleaf.study import Study
from hyperleaf.surrogates import named
from hyperleaf.surrogates.named import make_inference, make_surrogate

MARKED = {"fast": SMC(particles=11), "standard": SMC(particles=22), "thorough": SMC(particles=33)}


@pytest.fixture
def marked(monkeypatch):
    """Settings by which each effort is known."""
    monkeypatch.setattr(named, "EFFORTS", MARKED)


def test_the_command_line_names_the_efforts_there_are():
    assert [one.value for one in Effort] == list(EFFORTS) == list(MARKED)
    assert all(isinstance(settings, SMC) for settings in EFFORTS.values())


@pytest.mark.parametrize("effort", MARKED)
def test_the_plain_name_smc_has_the_settings_of_the_effort(marked, effort):
    for kind in ("hhk", "stationary", "warped"):
        assert make_surrogate(kind, 2, effort=effort, inference="smc").inference == MARKED[effort]
    for cls in (HHKRegressor, StationaryRegressor, WarpedRegressor):
        regressor = cls(inference="smc", effort=effort)
        assert regressor.get_params()["effort"] == effort
        assert regressor._surrogate(2).inference == MARKED[effort]


def test_standard_is_the_default(marked):
    made = [make_surrogate("hhk", 1), make_surrogate("stationary", 1), HHKRegressor()._surrogate(1)]
    assert [one.inference for one in made] == [MARKED["standard"]] * 3


@pytest.mark.parametrize("effort", MARKED)
def test_trees_that_are_weighed_have_the_same_effort_made_for_evidence(marked, effort):
    trees = make_surrogate("hhk", 2, choose_leaves=[1, 2], effort=effort).surrogates
    assert [tree.inference for tree in trees] == [MARKED[effort].for_evidence()] * 2


@pytest.mark.parametrize("inference", ["nuts", "map", {"kind": "smc", "particles": 64}, SMC(particles=64), NUTS()])
def test_an_effort_beside_settings_of_their_own_is_refused(inference):
    with pytest.raises(InputError, match=r"got effort = 'fast' with inference = .*Leave out effort") as failure:
        make_surrogate("hhk", 2, inference=inference, effort="fast")
    assert repr(inference) in str(failure.value)
    assert make_surrogate("hhk", 2, inference=inference, effort="standard").inference == make_inference(inference)


def test_by_maximum_likelihood_the_warped_surrogate_has_no_effort():
    with pytest.raises(InputError, match="with inference = 'ml'"):
        make_surrogate("warped", 2, effort="thorough")


@pytest.mark.parametrize("kind", ["treed", "deep"])
def test_surrogates_without_smc_have_no_effort(kind):
    with pytest.raises(InputError, match=f"the surrogate '{kind}' has no option 'effort'"):
        make_surrogate(kind, 2, effort="fast")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"effort": "thorogh"}, "effort must be one of .* got 'thorogh'. Did you mean 'thorough'?"),
        ({"effort": 3}, "effort must be one of .* got 3"),
        ({"efort": "fast"}, "has no option 'efort'; did you mean 'effort'?"),
        ({"effort": "fast", "inference": "map"}, "Leave out effort"),
    ],
)
def test_a_wrong_effort_of_a_study_is_a_sentence(options, words):
    with pytest.raises(InputError, match=words):
        Study.create("a", Domain(x=Real(0, 1)), "y", surrogate={"kind": "hhk", **options})


def test_a_study_learns_with_its_effort(marked):
    surrogate = {"kind": "stationary", "effort": "fast"}
    study = Study.create("a", Domain(x=Real(0, 1)), "y", surrogate=surrogate)
    study.add([{"x": 0.1 * i, "y": 0.3 * i} for i in range(4)])
    assert study.posterior.num_draws == 11
    assert study.definition.surrogate.options == {"effort": "fast"}
