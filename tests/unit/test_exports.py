"""Every format says what `predict` says, within and outside the domain; what cannot be exported is refused with a sentence."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import hyperleaf as hl
from hyperleaf.analysis import derivatives
from hyperleaf.errors import InputError, NotFittedYetError
from hyperleaf.exports import Source, Wishes, c_source, export, format_of, formats, ingredients, normal, numerics, thinning
from hyperleaf.exports.ingredients import axes_of, part_of
from hyperleaf.kernels import RBF, Periodic
from hyperleaf.surrogates.gp import stationary_surrogate, warped_surrogate

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fixed_draws import LINE, MIXED, MODELS, PLANE, Made, model_of

FEW = ("plane", "mixed", "known")  # the others in the long test
QUANTILES = (0.05, 0.5, 0.975)
CLOSE = 1e-9


@pytest.fixture(scope="module")
def made():
    return Made(3)


def numbers(model, points):
    """Points as formats of numbers read them: choices by the places of their options."""
    axes = axes_of(model.domain)
    rows = [[axis.options.index(p[axis.name]) if axis.options else p[axis.name] for axis in axes] for p in points]
    return np.array(rows, dtype=float)


def python_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(path: Path, *flags: str) -> ctypes.CDLL:
    target = path.with_suffix(".so")
    subprocess.run(["gcc", "-std=c99", "-O1", *flags, "-shared", "-fPIC", str(path), "-lm", "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def called(library, name: str, rows, outputs: int = 1, quantiles: int = 0):
    """What the C code says of each row: its answer, means, stds, quantiles."""
    pointer = ctypes.POINTER(ctypes.c_double)
    size = len(rows)
    mean, std, more = np.zeros((size, outputs)), np.zeros((size, outputs)), np.zeros((size, outputs, max(quantiles, 1)))
    answers = [
        getattr(library, f"{name}_predict")(*(np.ascontiguousarray(one).ctypes.data_as(pointer) for one in (row, m, s, q)))
        for row, m, s, q in zip(rows, mean, std, more, strict=True)
    ]
    return np.array(answers), mean, std, more


def close(found, expected, scale) -> bool:
    return bool(np.max(np.abs(np.asarray(found) - np.asarray(expected))) <= CLOSE * scale)


@pytest.mark.parametrize("name", FEW)
def test_ingredients_say_what_the_model_says(made, name):
    model = made[name]
    points = model.domain.design(50, "uniform", 1)
    part, mixture = part_of(model), model.predict(points)
    mean, std, means, stds = numerics.mixture(part, model.domain.to_unit(points), noisy=False)
    np.testing.assert_allclose(std, mixture.std(), rtol=CLOSE)
    assert close(mean, mixture.mean(), part.scale)
    expected = mixture.quantile(np.array(QUANTILES))
    assert close(numerics.quantiles(part, means, stds, QUANTILES), expected, part.scale)
    noisy = numerics.mixture(part, model.domain.to_unit(points), noisy=True)[1]
    np.testing.assert_allclose(noisy, mixture.noisy().std(), rtol=CLOSE)


@pytest.mark.parametrize("name", ["mixed"])
def test_python_file_needs_numpy_alone_and_agrees(made, name, tmp_path):
    model = made[name]
    export(model, tmp_path / "lift.py", quantiles=QUANTILES)
    points = model.domain.design(50, "uniform", 1)
    module = python_of(tmp_path / "lift.py")
    answer, mixture = module.predict(points), model.predict(points)
    assert not answer["outside"].any()
    np.testing.assert_allclose(answer["lift"]["std"], mixture.std(), rtol=CLOSE)
    assert close(answer["lift"]["mean"], mixture.mean(), model.learned.scale.scale)
    found = np.stack([answer["lift"][key] for key in ("q05", "q50", "q97_5")])
    assert close(found, mixture.quantile(np.array(QUANTILES)), model.learned.scale.scale)
    slopes, expected = module.slopes(points)["lift"], derivatives(model, points)
    real = [list(model.domain.names).index(one) for one in expected.names]
    np.testing.assert_allclose(slopes["mean"][:, real], expected.mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slopes["std"][:, real], expected.std, rtol=1e-6, atol=1e-6)
    assert np.isnan(np.delete(slopes["std"], real, axis=1)).all()
    code = (
        "import sys; sys.path.insert(0, '.'); import lift; print([m for m in ('scipy', 'jax', 'hyperleaf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize(("name", "stored"), [("plane", 0), ("mixed", 100_000)])
def test_c_source_compiles_without_a_warning_and_agrees(made, name, stored, tmp_path, monkeypatch):
    monkeypatch.setattr(c_source, "STORED", stored)
    model, path = made[name], tmp_path / f"{name}.c"
    export(model, path, quantiles=QUANTILES)
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsanitize=address,undefined"]
    flag = f"-D{name.upper()}_SELF_TEST"
    subprocess.run(["gcc", *strict, flag, str(path), "-lm", "-o", str(tmp_path / "test")], check=True)
    assert "largest difference" in subprocess.run([tmp_path / "test"], check=True, capture_output=True, text=True).stdout
    library = compiled(path)
    points = model.domain.design(50, "uniform", 1)
    rows, mixture = numbers(model, points), model.predict(points)
    answers, mean, *_ = called(library, name, rows[:1], quantiles=3)
    assert answers[0] == 4, "before init"
    assert np.isnan(mean).all()
    assert getattr(library, f"{name}_init")() == 0
    answers, mean, std, more = called(library, name, rows, quantiles=3)
    assert not answers.any()
    np.testing.assert_allclose(std[:, 0], mixture.std(), rtol=CLOSE)
    assert close(mean[:, 0], mixture.mean(), model.learned.scale.scale)
    assert close(more[:, 0].T, mixture.quantile(np.array(QUANTILES)), model.learned.scale.scale)


def test_a_self_test_fails_where_the_code_is_wrong(made, tmp_path):
    path = tmp_path / "plane.c"
    export(made["plane"], path)
    text = path.read_text()
    assert "prior -= v[i] * v[i];" in text
    path.write_text(text.replace("prior -= v[i] * v[i];", "prior -= 0.999 * v[i] * v[i];"))
    subprocess.run(["gcc", "-DPLANE_SELF_TEST", str(path), "-lm", "-o", str(tmp_path / "test")], check=True)
    assert subprocess.run([tmp_path / "test"], capture_output=True).returncode == 1


@pytest.mark.parametrize("name", ["mixed", "known"])
def test_onnx_agrees_in_double_precision(made, name, tmp_path):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    model = made[name]
    export(model, tmp_path / "lift.onnx", quantiles=QUANTILES, noisy=name == "known")
    loaded = onnx.load(tmp_path / "lift.onnx")
    assert {one.domain for one in loaded.opset_import} == {""} and loaded.opset_import[0].version >= 18
    data = {one.key: json.loads(one.value) for one in loaded.metadata_props}
    assert [one["name"] for one in data["hyperleaf.inputs"]] == list(model.domain.names)
    assert data["hyperleaf.units"] == {"lift": "kN"}
    session = runtime.InferenceSession(str(tmp_path / "lift.onnx"), providers=["CPUExecutionProvider"])
    points = model.domain.design(50, "uniform", 1)
    found = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"x": numbers(model, points)}), strict=True))
    mixture = model.predict(points, noisy=name == "known")
    assert not found["outside"].any()
    np.testing.assert_allclose(found["lift_std"], mixture.std(), rtol=CLOSE)
    assert close(found["lift"], mixture.mean(), model.learned.scale.scale)
    quantiles = np.stack([found[f"lift_{key}"] for key in ("q05", "q50", "q97_5")])
    assert close(quantiles, mixture.quantile(np.array(QUANTILES)), model.learned.scale.scale)


@pytest.mark.parametrize("ending", [".py", ".c", ".onnx", ".m"])
def test_noise_by_leaf_goes_along(made, ending, tmp_path):
    model = made["loud"]
    points = model.domain.design(20, "uniform", 1)
    expected = model.predict(points, noisy=True).std()
    assert np.ptp(model.learned.predict(model.domain.to_unit(points)).noise, axis=1).max() > 0
    path = tmp_path / f"loud{ending}"
    if ending == ".onnx":
        pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    if ending == ".m" and shutil.which("octave-cli") is None:
        pytest.skip("octave-cli is not installed; apt-get install octave has it")
    export(model, path, noisy=True)
    rows = numbers(model, points)
    if ending == ".py":
        found = python_of(path).predict(points)["lift"]["std"]
    elif ending == ".c":
        strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-DLOUD_SELF_TEST"]
        subprocess.run(["gcc", *strict, str(path), "-lm", "-o", str(tmp_path / "test")], check=True)
        subprocess.run([tmp_path / "test"], check=True, capture_output=True)
        library = compiled(path)
        assert library.loud_init() == 0
        found = called(library, "loud", rows)[2][:, 0]
    elif ending == ".onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        found = dict(zip([one.name for one in session.get_outputs()], session.run(None, {"x": rows}), strict=True))["lift_std"]
    else:
        np.savetxt(tmp_path / "points.csv", rows, delimiter=",", fmt="%.17g")
        code = "[a, b] = loud(dlmread('points.csv')); dlmwrite('out.csv', b, 'precision', '%.17g');"
        subprocess.run(["octave-cli", "--no-init-file", "--eval", code], cwd=tmp_path, check=True, capture_output=True)
        found = np.loadtxt(tmp_path / "out.csv", delimiter=",")
    np.testing.assert_allclose(found, expected, rtol=CLOSE)


def test_octave_agrees(made, tmp_path):
    octave = shutil.which("octave-cli")
    if octave is None:
        pytest.skip("octave-cli is not installed; apt-get install octave has it")
    model = made["mixed"]
    export(model, tmp_path / "lift.m", quantiles=QUANTILES)
    points = model.domain.design(50, "uniform", 1)
    rows = numbers(model, points)
    rows = np.concatenate([rows, rows[:1]])
    rows[-1, 0] = 11.0  # outside
    np.savetxt(tmp_path / "points.csv", rows, delimiter=",", fmt="%.17g")
    code = "[a, b, c, d] = lift(dlmread('points.csv')); dlmwrite('out.csv', [a, b, c, d], 'precision', '%.17g');"
    subprocess.run([octave, "--no-init-file", "--eval", code], cwd=tmp_path, check=True, capture_output=True)
    found, mixture = np.loadtxt(tmp_path / "out.csv", delimiter=","), model.predict(points)
    np.testing.assert_allclose(found[:-1, 1], mixture.std(), rtol=CLOSE)
    assert close(found[:-1, 0], mixture.mean(), model.learned.scale.scale)
    assert list(found[:, 2]) == [0] * 50 + [1]
    assert close(found[:-1, 3:].T, mixture.quantile(np.array(QUANTILES)), model.learned.scale.scale)


def test_fmu_is_valid_and_agrees(made, tmp_path):
    pytest.importorskip("fmpy")
    from fmpy import simulate_fmu
    from fmpy.validation import validate_fmu

    model, path = made["mixed"], tmp_path / "lift.fmu"
    export(model, path, quantiles=(0.05,))
    assert validate_fmu(str(path)) == []
    with zipfile.ZipFile(path) as archive:
        assert {"sources/lift.c", "sources/lift_fmi2.c", "binaries/linux64/lift.so"} <= set(archive.namelist())
    points = [
        {"speed": 2.0, "blades": 5, "steel": "hard", "load": 1.5},
        {"speed": 7.0, "blades": 3, "steel": "glass", "load": 4.0},
    ]
    for point in points:
        values = dict(zip(model.domain.names, numbers(model, [point])[0], strict=True))
        mixture = model.predict([point])
        found = simulate_fmu(str(path), start_values=values, stop_time=0.2, output=["lift", "lift_std", "lift_q05", "outside"])[
            -1
        ]
        expected = (mixture.mean()[0], mixture.std()[0], mixture.quantile(0.05)[0])
        assert close([found["lift"], found["lift_std"], found["lift_q05"]], expected, model.learned.scale.scale)
        assert not found["outside"]
    found = simulate_fmu(str(path), start_values={"speed": 20.0}, stop_time=0.2, output=["lift", "outside"])[-1]
    assert found["outside"] and np.isfinite(found["lift"])


def test_workbook_has_predictions_runs_and_the_certificate(made, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    model = made["mixed"]
    export(model, tmp_path / "lift.xlsx", quantiles=(0.05,))
    book = openpyxl.load_workbook(tmp_path / "lift.xlsx")
    assert book.sheetnames == ["certificate", "predictions", *(f"along {name}" for name in model.domain.names), "runs"]
    rows = list(book["predictions"].values)
    assert rows[0] == ("speed", "blades", "steel", "load", "lift mean [kN]", "lift std [kN]", "lift q05 [kN]")
    points = [dict(zip(model.domain.names, row, strict=False)) for row in rows[1:6]]
    np.testing.assert_allclose([row[4] for row in rows[1:6]], model.predict(points).mean(), rtol=1e-9)
    assert len(list(book["runs"].values)) == 1 + len(model.learned.y)


def test_what_lies_outside_is_flagged_and_said_alike_everywhere(made, tmp_path):
    """Beyond a bound the values go on; where there is no such point they are NaN. NumPy, C and ONNX say the same."""
    runtime = pytest.importorskip("onnxruntime")
    model = made["mixed"]
    rows = np.array(
        [[5, 3, 1, 2], [12, 3, 1, 2], [5, 3.5, 1, 2], [5, 9, 1, 2], [5, 3, 3, 2], [np.nan, 3, 0, 2], [10 + 1e-13, 3, 0, 2.0]]
    )
    expected = [False, True, True, True, True, True, False]
    missing = [False, False, True, True, True, True, False]
    whole = Source(model).ingredients(Wishes())
    ours = numerics.predict(whole, rows)
    assert list(ours["outside"]) == expected and list(np.isnan(ours["lift"]["mean"])) == missing
    export(model, tmp_path / "lift.c")
    library = compiled(tmp_path / "lift.c")
    library.lift_init()
    answers, mean, std, _ = called(library, "lift", rows)
    assert list(answers > 0) == expected and list(answers) == [0, 1, 3, 3, 3, 3, 0]
    np.testing.assert_allclose(mean[:, 0], ours["lift"]["mean"], rtol=1e-9)
    export(model, tmp_path / "lift.onnx")
    session = runtime.InferenceSession(str(tmp_path / "lift.onnx"), providers=["CPUExecutionProvider"])
    outside, mean, std = session.run(["outside", "lift", "lift_std"], {"x": rows})
    assert list(outside) == expected
    np.testing.assert_allclose(mean, ours["lift"]["mean"], rtol=1e-9)
    np.testing.assert_allclose(std, ours["lift"]["std"], rtol=1e-9)
    export(model, tmp_path / "lift.py")
    options = model.domain.axes["steel"].options
    named = [[row[0], row[1], options[int(row[2])] if row[2] < 3 else "wood", row[3]] for row in rows]
    answer = python_of(tmp_path / "lift.py").predict(named)
    assert list(answer["outside"]) == expected
    np.testing.assert_allclose(answer["lift"]["mean"], ours["lift"]["mean"], rtol=1e-9)


def test_a_log_axis_refuses_zero(made):
    found = numerics.predict(Source(made["plane"]).ingredients(Wishes()), np.array([[1.0, 0.0], [1.0, 40.0], [1.0, 5.0]]))
    assert list(found["outside"]) == [True, True, False]
    assert list(np.isnan(found["lift"]["mean"])) == [True, False, False]


def test_several_outputs_go_in_one_file(made, tmp_path):
    other = model_of(MIXED, stationary_surrogate(6), lambda p: p["load"] ** 2, num=2, n=25, name="drag", unit="N", seed=4)
    export({"lift": made["mixed"], "drag": other}, tmp_path / "both.c", output=("drag", "lift"))
    library = compiled(tmp_path / "both.c")
    assert library.both_init() == 0
    points = MIXED.design(50, "uniform", 2)
    _, mean, std, _ = called(library, "both", numbers(other, points), outputs=2)
    np.testing.assert_allclose(mean.T, [other.predict(points).mean(), made["mixed"].predict(points).mean()], rtol=1e-8)
    np.testing.assert_allclose(std.T, [other.predict(points).std(), made["mixed"].predict(points).std()], rtol=1e-8)
    with pytest.raises(InputError, match="say which"):
        export({"lift": made["mixed"], "drag": other}, tmp_path / "both.npz")


def test_the_certificate_names_data_settings_and_accuracy(made, tmp_path):
    model = made["known"]
    export(model, tmp_path / "lift.npz")
    again = hl.load_model(tmp_path / "lift.npz")
    found = again.certificate
    one = found["outputs"][0]
    assert one["data"]["runs"] == 30 and len(one["data"]["sha256"]) == 64
    assert one["accuracy"]["loo_rmse"] > 0
    assert found["domain"] == model.domain.to_dict()
    assert Source(again).ingredients(Wishes()).certificate["outputs"][0]["settings"]["kernel"] == "matern32"
    changed = model_of(LINE, stationary_surrogate(1), lambda p: p["t"], num=1, noise=0.01)
    assert Source(changed).ingredients(Wishes()).certificate["outputs"][0]["data"]["sha256"] != one["data"]["sha256"]
    first, second = (export(model, tmp_path / name).read_text() for name in ("a.py", "b.py"))
    assert first == second, "the same surrogate, the same bytes"


def test_thinning_keeps_mean_and_std_and_states_its_loss():
    model = model_of(LINE, stationary_surrogate(1), lambda p: np.sin(3 * p["t"]), num=48, n=12)
    part = part_of(model)
    thin = thinning.thinned(part, 0.02)
    assert thin.after < 24 and thin.part.weights.sum() == pytest.approx(1.0)
    unit = np.random.default_rng(5).random((200, 1))
    mean, std, *_ = numerics.mixture(part, unit, False)
    few_mean, few_std, *_ = numerics.mixture(thin.part, unit, False)
    assert np.quantile(np.abs(few_mean - mean) / std, 0.9) < 0.03
    assert np.quantile(np.abs(few_std / std - 1), 0.9) < 0.03
    assert max(thin.mean_loss, thin.std_loss) <= 0.02
    stated = Source(model).ingredients(Wishes.of(tolerance=0.02)).certificate["outputs"][0]
    assert stated["thinned"]["draws"] == thin.after == stated["settings"]["draws"]


def test_thinning_keeps_a_draw_that_matters_in_a_corner_only():
    """A gate of one draw cuts off 0.05 % of the square, behind which the std would change by a third without it."""
    from dataclasses import replace

    one = part_of(model_of(PLANE, stationary_surrogate(2, RBF(0.3, 1.0), noise="none"), lambda p: p["mach"], n=10, num=1))
    draws = 24
    offset, normal = np.full((draws, 1), 50.0), np.zeros((draws, 1, 2))
    offset[7], normal[7] = 1.97 * 400, -400.0
    repeated = {key: np.repeat(getattr(one, key), draws, axis=0) for key in ("noise", "nugget", "factor", "whitened")}
    part = replace(
        one,
        weights=np.full(draws, 1 / draws),
        offset=offset,
        normal=normal,
        side=np.tile(np.array([[1], [-1]], dtype=np.int8), (draws, 1, 1)),
        lengthscale=np.tile(one.lengthscale, (draws, 2, 1)),
        variance=np.tile([1.0, 25.0], (draws, 1)),
        tilt=np.zeros((draws, 2)),
        **repeated,
    )
    thin = thinning.thinned(part, 0.05)
    corner = np.full((1, 2), 0.999)
    std, few = (numerics.mixture(one, corner, False)[1] for one in (part, thin.part))
    assert std / numerics.mixture(one, corner, False)[1] > 1.3, "the corner is as it was meant"
    assert few == pytest.approx(std, rel=0.05) and thin.after < 6
    assert max(thin.mean_loss, thin.std_loss) <= 0.05


def test_draws_that_repeat_are_kept_once():
    z, factor = np.array([[1.0], [2.0], [1.0], [3.0], [1.0]]), np.ones((5, 1, 1))
    factor[4] = 2.0  # the same parameters with other jitter
    kept, weights = ingredients._distinct(z, factor, np.array([0.1, 0.2, 0.3, 0.0, 0.4]))
    assert list(kept) == [0, 1, 4] and list(weights) == pytest.approx([0.4, 0.2, 0.4])


def test_phi_keeps_its_digits():
    from scipy.special import erfcx

    x = np.concatenate([[0.0], np.logspace(-3, 2, 50)])
    series = np.polynomial.chebyshev.chebval((x - normal.CENTRE) / (x + normal.CENTRE), normal.coefficients())
    np.testing.assert_allclose(series / (1 + 2 * x), erfcx(x), rtol=1e-14)


def test_an_average_of_trees_is_one_form():
    """Members with other trees are padded with leaves of no variance; what is predicted is their mixture."""
    from hyperleaf.surrogates.gp import hhk_surrogate

    few, many = (model_of(PLANE, hhk_surrogate(2, leaves), lambda p: p["mach"], num=2, n=20) for leaves in (1, 3))
    parts = [part_of(model) for model in (few, many)]
    halves = [part.only(np.arange(2), 0.5 * part.weights) for part in parts]
    joined = ingredients._joined(halves)
    unit = np.random.default_rng(0).random((20, 2))
    means, variances = numerics.moments(joined, unit)
    apart = [numerics.moments(part, unit) for part in parts]
    np.testing.assert_allclose(means, np.concatenate([one[0] for one in apart]), rtol=1e-10)
    np.testing.assert_allclose(variances, np.concatenate([one[1] for one in apart]), rtol=1e-8, atol=1e-14)
    assert joined.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("ending", [".py", ".c", ".onnx", ".m", ".fmu"])
def test_other_forms_are_refused_with_a_sentence(ending, tmp_path):
    periodic = model_of(LINE, stationary_surrogate(1, Periodic(0.5, 1.0, 1.0)), lambda p: p["t"], num=1, n=8)
    with pytest.raises(InputError, match=r"periodic.*npz"):
        export(periodic, tmp_path / f"f{ending}")
    assert not list(tmp_path.iterdir())


def test_a_treed_surrogate_goes_as_npz_only(tmp_path):
    rng = np.random.default_rng(0)
    model = hl.TreedRegressor(burn_in=20, total=60, random_state=0).fit(rng.random((25, 2)), rng.random(25))
    with pytest.raises(InputError, match=r"TreedGP is none.*npz"):
        model.export(tmp_path / "f.onnx")
    model.export(tmp_path / "f.npz")
    assert hl.load_model(tmp_path / "f.npz").predict([[0.5, 0.5]]).mean().shape == (1,)


def test_warped_is_refused_too(tmp_path):
    model = model_of(LINE, warped_surrogate(1, inference=hl.Map()), lambda p: p["t"], num=1, n=8)
    with pytest.raises(InputError, match="warped"):
        export(model, tmp_path / "f.c")


def test_what_cannot_be_meant_is_said(made, tmp_path):
    with pytest.raises(InputError, match=r"follows from the name.*\.onnx"):
        export(made["line"], tmp_path / "f.pmml")
    with pytest.raises(InputError, match="a quantile must lie between"):
        export(made["line"], tmp_path / "f.c", quantiles=(95,))
    with pytest.raises(InputError, match="tolerance is a share"):
        export(made["line"], tmp_path / "f.c", tolerance=2)
    with pytest.raises(InputError, match="those of a study"):
        export(made["line"], tmp_path / "f.csv")
    with pytest.raises(InputError, match=r"one of \['lift'\]; got 'drag'"):
        export(made["line"], tmp_path / "f.c", output="drag")
    with pytest.raises(NotFittedYetError):
        export(hl.HHKRegressor(), tmp_path / "f.c")
    with pytest.raises(InputError, match="does not"):
        export(made["line"], tmp_path / "no" / "f.c")
    with pytest.raises(InputError, match="asked for noise"):
        export(made["line"], tmp_path / "f.npz", noisy=True)


def test_formats_are_found_by_themselves():
    folder = Path(c_source.__file__).parent
    files = [path for path in folder.glob("*.py") if "\nFORMAT = Format(" in path.read_text(encoding="utf-8")]
    assert len(set(map(id, formats().values()))) == len(files) >= 9
    assert format_of("A.ONNX").title == "an ONNX model in double precision"


def test_leaves_of_unlike_kernels_are_refused():
    from hyperleaf.kernels import Matern32

    with pytest.raises(InputError, match="'matern32', 'rbf'"):
        ingredients._profile_of([RBF(), Matern32()])


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_all_formats_agree_at_ten_thousand_points(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model = MODELS[name](8)
    points = model.domain.design(10_000, "uniform", 7)
    rows, mixture = numbers(model, points), model.predict(points)
    mean, std = mixture.mean(), mixture.std()
    found = {}
    export(model, tmp_path / "lift.py")
    answer = python_of(tmp_path / "lift.py").predict(points)["lift"]
    found["python"] = answer["mean"], answer["std"]
    for stored in (0, 1_000_000):
        c_source.STORED, kept = stored, c_source.STORED
        path = export(model, tmp_path / f"lift{stored}.c")
        c_source.STORED = kept
        library = compiled(path)
        assert getattr(library, f"lift{stored}_init")() == 0
        _, a, b, _ = called(library, f"lift{stored}", rows)
        found[f"C, {stored}"] = a[:, 0], b[:, 0]
    export(model, tmp_path / "lift.onnx")
    session = runtime.InferenceSession(str(tmp_path / "lift.onnx"), providers=["CPUExecutionProvider"])
    parts = [session.run(["lift", "lift_std"], {"x": rows[i : i + 1000]}) for i in range(0, len(rows), 1000)]
    found["onnx"] = tuple(np.concatenate(one) for one in zip(*parts, strict=True))
    if shutil.which("octave-cli"):
        export(model, tmp_path / "lift.m")
        np.savetxt(tmp_path / "points.csv", rows, delimiter=",", fmt="%.17g")
        code = "[a, b] = lift(dlmread('points.csv')); dlmwrite('out.csv', [a, b], 'precision', '%.17g');"
        subprocess.run(["octave-cli", "--no-init-file", "--eval", code], cwd=tmp_path, check=True, capture_output=True)
        found["octave"] = tuple(np.loadtxt(tmp_path / "out.csv", delimiter=",").T)
    differences = {
        key: (np.max(np.abs(a - mean)) / np.abs(mean).max(), np.max(np.abs(b / std - 1.0))) for key, (a, b) in found.items()
    }
    print(name, {key: f"{a:.1e} {b:.1e}" for key, (a, b) in differences.items()})
    assert max(max(pair) for pair in differences.values()) <= CLOSE, differences


@pytest.mark.parametrize("name", ["mixed", "plane", "known"])
def test_derivatives_go_where_they_are_asked_for(made, name, tmp_path):
    """C, ONNX, FMU and Octave say what `derivatives` says: gates, choices, a log axis, a Matérn kernel."""
    runtime, fmpy = pytest.importorskip("onnxruntime"), pytest.importorskip("fmpy")
    model = made[name]
    points = model.domain.design(12, "uniform", 3)
    expected, rows = derivatives(model, points), numbers(model, points)
    sizes = model.learned.scale.scale / np.array([np.ptp(model.domain.axes[one].bounds) for one in expected.names])

    def agree(mean, std) -> None:
        for found, wanted in ((mean, expected.mean), (std, expected.std)):
            assert np.max(np.abs(found - wanted) / (sizes + np.abs(wanted))) <= 1e-9

    export(model, tmp_path / "lift.c", derivatives=True, quantiles=QUANTILES)
    strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-fsanitize=address,undefined"]
    test = ["gcc", *strict, "-DLIFT_SELF_TEST", str(tmp_path / "lift.c"), "-lm", "-o", str(tmp_path / "test")]
    subprocess.run(test, check=True)
    assert subprocess.run([tmp_path / "test"]).returncode == 0
    library = compiled(tmp_path / "lift.c")
    library.lift_init()
    real = [i for i, one in enumerate(model.domain.names) if one in expected.names]
    both = np.zeros((2, *rows.shape))
    for row, mean, std in zip(rows, *both, strict=True):
        library.lift_slopes(
            *(np.ascontiguousarray(one).ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for one in (row, mean, std))
        )
    agree(*both[:, :, real])
    assert np.isnan(np.delete(both, real, axis=2)).all()

    labels = [f"lift_by_{one}{ending}" for one in expected.names for ending in ("", "_std")]
    export(model, tmp_path / "lift.onnx", derivatives=True)
    session = runtime.InferenceSession(str(tmp_path / "lift.onnx"), providers=["CPUExecutionProvider"])
    found = np.array(session.run(labels, {"x": rows}))
    agree(found[::2].T, found[1::2].T)

    export(model, tmp_path / "lift.fmu", derivatives=True)
    values = dict(zip(model.domain.names, rows[0], strict=True))
    step = fmpy.simulate_fmu(str(tmp_path / "lift.fmu"), start_values=values, stop_time=0.1, output=labels)[-1]
    last = np.array([step[label] for label in labels])
    assert np.max(np.abs(last - found[:, 0]) / (np.repeat(sizes, 2) + np.abs(last))) <= 1e-9

    if (octave := shutil.which("octave-cli")) is not None:
        export(model, tmp_path / "lift.m", derivatives=True)
        np.savetxt(tmp_path / "points.csv", rows, delimiter=",", fmt="%.17g")
        code = "[a, b, c, d, e] = lift(dlmread('points.csv')); dlmwrite('out.csv', [d, e], 'precision', '%.17g');"
        subprocess.run([octave, "--no-init-file", "--eval", code], cwd=tmp_path, check=True, capture_output=True)
        table = np.loadtxt(tmp_path / "out.csv", delimiter=",").reshape(len(points), 2, -1)
        agree(table[:, 0, real], table[:, 1, real])


def test_derivatives_that_do_not_exist_are_refused(tmp_path):
    from hyperleaf.kernels import Matern12

    rough = model_of(LINE, stationary_surrogate(1, Matern12(0.3, 1.0)), lambda p: p["t"], n=6, num=1)
    with pytest.raises(InputError, match="have no derivatives"):
        export(rough, tmp_path / "f.c", derivatives=True)
    whole = model_of(hl.Domain(k=hl.Integer(1, 5)), stationary_surrogate(1), lambda p: p["k"], n=4, num=1)
    with pytest.raises(InputError, match="by real inputs, and this domain has none"):
        export(whole, tmp_path / "f.onnx", derivatives=True)
    for ending in ("npz", "nc"):
        with pytest.raises(InputError, match="Leave them out"):
            export(rough, tmp_path / f"f.{ending}", derivatives=True)


def test_names_of_outputs_do_not_collide_with_those_of_inputs(tmp_path):
    """An estimator's output is called y, and so may be an input."""
    fmpy = pytest.importorskip("fmpy")
    from fmpy.validation import validate_fmu

    domain = hl.Domain(x=hl.Real(0, 1), y=hl.Real(0, 1))
    model = model_of(domain, stationary_surrogate(2), lambda p: p["x"], num=1, n=8, name="y", unit="")
    export(model, tmp_path / "f.fmu")
    assert validate_fmu(str(tmp_path / "f.fmu")) == []
    variables = [one.name for one in fmpy.read_model_description(str(tmp_path / "f.fmu")).modelVariables]
    assert variables == ["x", "y", "y_mean", "y_std", "outside"]
    other = model_of(domain, stationary_surrogate(2), lambda p: p["x"], num=1, n=8, name="y_std", unit="")
    with pytest.raises(InputError, match="'y_std' is there twice"):
        export({"y": model, "y_std": other}, tmp_path / "f.onnx")
