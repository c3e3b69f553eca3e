"""Posteriors in files: what is loaded is what was saved, to the last bit, and a file that cannot be read says why."""

import builtins
import dataclasses
import importlib
import json
import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

from hyperleaf.data import Dataset, Standardizer
from hyperleaf.errors import InputError
from hyperleaf.gp import GP
from hyperleaf.inference import METHODS
from hyperleaf.inference.hmc import HMC, NUTS
from hyperleaf.inference.map import Map
from hyperleaf.inference.smc import SMC
from hyperleaf.kernels import RBF, ChangeHyperplane, Kernel, Linear, Matern32, Stationary
from hyperleaf.surrogates import files, tags
from hyperleaf.surrogates.ensemble import Averaged, AveragedPosterior
from hyperleaf.surrogates.files import load_posterior, posterior_from_arrays, posterior_to_arrays, save_posterior
from hyperleaf.surrogates.gp import GPSurrogate, hhk_surrogate, stationary_surrogate, surrogate
from hyperleaf.surrogates.named import make_inference

rng = np.random.default_rng(5)
X = rng.uniform(size=(8, 2))
DATA = Dataset(X, np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=8))
POINTS = rng.uniform(size=(7, 2))
KEY = jax.random.key(3)


def same_bits(first, second):
    """The same tree with the same bits in every array, NaN included; a typed comparison, so 1 is not 1.0. Caches are left out."""
    first, second = ({k: v for k, v in dataclasses.asdict(one).items() if not k.startswith("_")} for one in (first, second))
    first_leaves, first_tree = jax.tree.flatten(first)
    second_leaves, second_tree = jax.tree.flatten(second)
    assert first_tree == second_tree
    for a, b in zip(first_leaves, second_leaves, strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray | jax.Array):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        else:
            assert a == b or (a != a and b != b)


@pytest.fixture(scope="module")
def fitted():
    return hhk_surrogate(2, 2, inference=SMC(particles=8, max_moves=2), mean="constant").fit(DATA, key=jax.random.key(1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "posterior.npz"


def test_every_bit_of_a_posterior_survives(fitted, path):
    assert save_posterior(path, fitted) == path
    loaded = load_posterior(path)
    same_bits(fitted, loaded)
    assert loaded.surrogate.inference == fitted.surrogate.inference
    assert loaded.surrogate.model.kernel.tree == fitted.surrogate.model.kernel.tree


def test_a_loaded_posterior_predicts_and_moves_on_bit_for_bit(fitted, path):
    loaded = load_posterior(save_posterior(path, fitted))
    np.testing.assert_array_equal(fitted.predict(POINTS).means, loaded.predict(POINTS).means)
    np.testing.assert_array_equal(fitted.predict(POINTS).variances, loaded.predict(POINTS).variances)
    # A surprising observation makes the particles move, so that the step size and the evidence matter too.
    ours, theirs = (p.update([0.5, 0.5], 3.0, key=KEY) for p in (fitted, loaded))
    assert ours.diagnostics.extra["info"].trajectories > 0
    for name in ("z", "log_weights", "seen", "particles"):
        for a, b in zip(jax.tree.leaves(getattr(ours, name)), jax.tree.leaves(getattr(theirs, name)), strict=True):
            np.testing.assert_array_equal(a, b)


def test_saving_after_an_update_keeps_grown_factors_and_uneven_weights(fitted, path):
    moved = fitted.update([0.1, 0.9], float(fitted.predict([[0.1, 0.9]]).mean()[0]), key=KEY)
    assert np.ptp(moved.weights) > 0
    same_bits(moved, load_posterior(save_posterior(path, moved)))


def test_only_the_lower_triangle_of_the_real_rows_is_stored(fitted):
    arrays, _ = posterior_to_arrays(fitted)
    full = fitted.seen.factor.size
    assert full not in [array.size for array in arrays.values()]
    assert 8 * 8 * 9 // 2 in [array.size for array in arrays.values()]


@pytest.mark.parametrize("negative_zero", [False, True])
def test_matrices_that_are_not_padded_factors_are_stored_whole(negative_zero):
    matrix = np.eye(4)
    matrix[2, 0] = 5.0
    assert files._triangle(matrix) == 3
    matrix[0, 3] = -0.0 if negative_zero else 1e-300
    assert files._triangle(matrix) is None


class Surprise:
    """Something that no file holds."""


def prior_of(kernel, noise):
    return GPSurrogate(GP(kernel, noise), SMC(particles=4))


@pytest.mark.parametrize(
    "model",
    [
        stationary_surrogate(2, inference=NUTS(draws=7)),
        stationary_surrogate(2, Matern32(dist.LogNormal(0.0, 1.0).expand((2,)), 2.0), inference=HMC(draws=60, thin=3)),
        surrogate(RBF(1.0) * 0.5 + Linear(dist.HalfNormal(1.0)), inference=Map(restarts=3), noise="known"),
        hhk_surrogate(2, tree=((0, 1), 2), mean="linear", weights="sqrt", noise=dist.InverseGamma(2.0, 0.1)),
        surrogate(ChangeHyperplane(RBF(), Matern32(dist.Gamma(2.0, 1.0)), 0.0, dist.Normal(jnp.zeros(2), 1.0).to_event(1))),
        surrogate(RBF(dist.Uniform(0.1, 2.0), dist.TruncatedNormal(1.0, 0.5, low=0.0))),
        surrogate(RBF(dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.ExpTransform()))),
    ],
    ids=["rbf", "lognormal", "sum and product", "tree", "hyperplane", "bounded", "transformed"],
)
def test_models_survive(model):
    holder = dataclasses.replace(files_holder(), surrogate=model)
    arrays, meta = posterior_to_arrays(holder)
    loaded = posterior_from_arrays(arrays, json.loads(json.dumps(meta, allow_nan=False))).surrogate
    assert jax.tree.structure(loaded) == jax.tree.structure(model)
    assert loaded.inference == model.inference
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(model), strict=True):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
    traced = []

    @eqx.filter_jit
    def log_density(prior, z):
        traced.append(prior)
        return prior.log_density(z)

    with jax.enable_x64(True):
        z = jnp.linspace(-1.0, 1.0, model.prior.size)
        ours, theirs = log_density(model.prior, z), log_density(loaded.prior, z)
    assert np.isfinite(ours) and ours == theirs
    assert len(traced) == 1, "a loaded model must not compile anew"


_HOLDER = []


def files_holder():
    """A posterior whose surrogate may be exchanged, made once without compiling anything."""
    if not _HOLDER:
        from hyperleaf.gp import Conditioned, pad
        from hyperleaf.surrogates.base import Diagnostics
        from hyperleaf.surrogates.gp import GPPosterior

        with jax.enable_x64(True):
            seen = Conditioned(jnp.eye(16)[None], jnp.zeros((1, 16)), jnp.zeros(1))
            summary = Diagnostics("smc", 1, 0.1, rhat={"noise": float("nan")}, ess_bulk={"f": float("inf")})
            made = GPPosterior(stationary_surrogate(2), DATA, pad(DATA), jnp.zeros((1, 4)), jnp.zeros(1), seen, summary)
        _HOLDER.append(made)
    return _HOLDER[0]


def test_what_diagnostics_hold_beyond_numbers_is_left_out(path):
    holder = files_holder()
    extra = {"history": (1, 2.5), "strange": Surprise(), "numbers": np.arange(3)}
    holder = dataclasses.replace(holder, diagnostics=dataclasses.replace(holder.diagnostics, extra=extra))
    loaded = load_posterior(save_posterior(path, holder)).diagnostics
    assert set(loaded.extra) == {"history", "numbers"}
    assert np.isnan(loaded.rhat["noise"]) and loaded.ess_bulk["f"] == np.inf
    assert loaded.extra["history"] == (1, 2.5)


class Cosine(Stationary):
    """A user's own kernel."""

    def profile(self, squared):
        return jnp.cos(jnp.sqrt(squared + 1e-12))


def test_a_kernel_of_ones_own_is_refused_with_the_way_out(path):
    own = prior_of(Cosine(dist.Gamma(2.0, 2.0).expand((2,))), 0.1)
    holder = dataclasses.replace(files_holder(), surrogate=own)
    with pytest.raises(InputError, match=r"Cosine.*keep_surrogate=False"):
        save_posterior(path, holder)
    assert list(path.parent.iterdir()) == []
    save_posterior(path, holder, keep_surrogate=False)
    with pytest.raises(InputError, match="without its surrogate"):
        load_posterior(path)
    assert load_posterior(path, surrogate=own).surrogate is own


def test_a_missing_file_is_named(path):
    with pytest.raises(InputError, match=r"none at .*posterior\.npz"):
        load_posterior(path)


@pytest.mark.parametrize("content", [b"", b"x,y\n1,2\n", b"\x80\x04pickle"])
def test_something_else_is_not_taken_for_a_posterior(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError, match="not an NPZ"):
        load_posterior(path)


def test_a_foreign_npz_is_not_taken_for_a_posterior(path):
    np.savez(path, x=np.zeros(3))
    with pytest.raises(InputError, match="holds no posterior"):
        load_posterior(path)
    np.savez(path, header=np.frombuffer(b'{"format": "other"}', dtype=np.uint8))
    with pytest.raises(InputError, match="written by something else"):
        load_posterior(path)
    np.savez(path, header=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        load_posterior(path)


def test_a_truncated_or_damaged_file_says_so(fitted, path):
    whole = save_posterior(path, fitted).read_bytes()
    for cut in (10, len(whole) // 2, len(whole) - 5):
        path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match="cut short or damaged"):
            load_posterior(path)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    with pytest.raises(InputError, match="damaged"):
        load_posterior(path)


def test_a_newer_format_is_refused_with_the_version_that_wrote_it(fitted):
    arrays, meta = posterior_to_arrays(fitted)
    with pytest.raises(InputError, match=r"up to format version 2; got version 3, written by hyperleaf 9\.0"):
        posterior_from_arrays(arrays, {**meta, "version": 3, "hyperleaf": "9.0"})


def test_arrays_or_fields_that_are_missing_or_unknown_say_so(fitted):
    arrays, meta = posterior_to_arrays(fitted)
    with pytest.raises(InputError, match="incomplete or damaged"):
        posterior_from_arrays({}, meta)
    tree = json.loads(json.dumps(meta))
    tree["posterior"]["fields"]["colour"] = "red"
    with pytest.raises(InputError, match=r"unknown: \['colour'\]"):
        posterior_from_arrays(arrays, tree)
    tree = json.loads(json.dumps(meta))
    del tree["posterior"]["fields"]["z"]
    with pytest.raises(InputError, match=r"missing: \['z'\]"):
        posterior_from_arrays(arrays, tree)


def header_of(version, node):
    return {"format": files.FORMAT, "version": version, "posterior": node}


HOSTILE = [
    "os.system",
    "subprocess.Popen",
    "hyperleaf.surrogates.files.os",
    "hyperleaf.gp.jax.Array",
    "hyperleafs.Evil",
    "hyperleaf.gp.Target",  # a class of ours that is never saved
    "numpyro.distributions.flows.InverseAutoregressiveTransform",
    "numpyro:os",
    "",
]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("key", ["class", "tag"])
@pytest.mark.parametrize("name", HOSTILE)
def test_what_has_no_tag_is_refused_in_a_sentence_and_nothing_is_imported(name, key, version, monkeypatch):
    imported = []

    def noted(function):
        return lambda module, *rest, **more: (imported.append(module), function(module, *rest, **more))[1]

    monkeypatch.setattr(builtins, "__import__", noted(builtins.__import__))
    monkeypatch.setattr(importlib, "import_module", noted(importlib.import_module))
    with pytest.raises(InputError) as refused:
        posterior_from_arrays({}, header_of(version, {key: name, "fields": {}}))
    assert f"{name!r} is none that is known here. Load it with" in str(refused.value)
    assert not {name, name.rpartition(".")[0]} & set(imported)


def test_a_module_path_is_no_tag_and_a_tag_no_module_path():
    fields = {"loc": 1.0, "scale": 2.0}
    path, tag = "hyperleaf.data.Standardizer", "scale"
    assert posterior_from_arrays({}, header_of(1, {"class": path, "fields": fields})) == Standardizer(1.0, 2.0)
    assert posterior_from_arrays({}, header_of(2, {"tag": tag, "fields": fields})) == Standardizer(1.0, 2.0)
    for version, name in ((1, tag), (2, path)):
        with pytest.raises(InputError, match="none that is known here"):
            posterior_from_arrays({}, header_of(version, {"tag": name, "fields": fields}))


@pytest.mark.parametrize("version", [0, -1, True, "1", None, 1.0])
def test_a_version_that_never_was_is_refused(version):
    with pytest.raises(InputError, match="format version"):
        posterior_from_arrays({}, header_of(version, None))


# --- tags


def test_tags_are_unique_and_paths_of_version_1_lead_to_them():
    assert len(set(tags.CLASSES.values()) - {dict}) == len([cls for cls in tags.CLASSES.values() if cls is not dict])
    assert set(tags.PATHS_1.values()) >= set(tags.CLASS_OF) - set(tags.CLASSES)
    ours = {tag for path, tag in tags.PATHS_1.items() if path.startswith("hyperleaf.")}
    assert ours <= set(tags.CLASSES)
    assert not any("hyperleaf" in tag or "." in tag for tag in tags.CLASS_OF)


def test_every_kernel_and_every_inference_has_a_tag():
    def below(cls):
        return {cls}.union(*(below(one) for one in cls.__subclasses__()))

    kernels = {cls for cls in below(Kernel) if cls.__module__.startswith("hyperleaf.kernels")}
    # ChangePoint makes a ChangeHyperplane; equinox keeps an initable twin of each class, of the same name.
    named = {cls.__qualname__ for cls in kernels} - {"Kernel", "Stationary"}
    assert named <= {cls.__qualname__ for cls in tags.TAG_OF}
    assert {type(make_inference(kind)) for kind in METHODS} <= set(tags.TAG_OF)


def test_fields_that_were_renamed_or_dropped_since_are_carried_over(monkeypatch):
    old = {"loc": 1.0, "spread": 2.0, "colour": "red"}
    changes = {"spread": tags.renamed("scale"), "colour": tags.dropped, "loc": lambda value: {"loc": value + 1.0}}
    file = header_of(1, {"class": "hyperleaf.data.Standardizer", "fields": old})
    with pytest.raises(InputError, match=r"unknown: \['colour', 'spread'\], missing: \['scale'\]"):
        posterior_from_arrays({}, file)
    monkeypatch.setitem(tags.CHANGES, 1, {"scale": changes})
    assert posterior_from_arrays({}, file) == Standardizer(2.0, 2.0)
    today = {"loc": 1.0, "scale": 2.0}
    assert posterior_from_arrays({}, header_of(2, {"tag": "scale", "fields": today})) == Standardizer(1.0, 2.0)


def test_a_class_that_is_gone_is_read_as_its_fields(monkeypatch):
    monkeypatch.setitem(tags.CLASS_OF, "scale", dict)
    fields = {"loc": 1.0, "scale": 2.0}
    assert posterior_from_arrays({}, header_of(2, {"tag": "scale", "fields": fields})) == fields


def test_a_failed_save_leaves_the_old_file_and_nothing_else(fitted, path, monkeypatch):
    save_posterior(path, fitted)
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        save_posterior(path, fitted)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_average_over_surrogates_survives(path):
    members = (files_holder(), dataclasses.replace(files_holder(), surrogate=hhk_surrogate(2, 2)))
    average = AveragedPosterior(Averaged(tuple(member.surrogate for member in members)), members)
    loaded = load_posterior(save_posterior(path, average))
    assert type(loaded) is AveragedPosterior and len(loaded.members) == 2
    assert jax.tree.structure(loaded.surrogate) == jax.tree.structure(average.surrogate)
    for ours, theirs in zip(members, loaded.members, strict=True):
        same_bits(ours, theirs)
