"""Tasks of the comparison: the paper's set-ups, known truths, tables from files that the tests make, and fetching."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pandas as pd
import pytest

from hyperleaf.bench import tables, truths
from hyperleaf.bench.tasks import Task, needs_path, task, tasks
from hyperleaf.bench.tasks.systems import SYSTEMS
from hyperleaf.data import Standardizer
from hyperleaf.domain import Domain, Real
from hyperleaf.errors import DataError, DomainError, InputError

KNOWN = [name for name in tasks() if not needs_path(name)]
STATIC = [name for name in KNOWN if name not in SYSTEMS and task(name).num_queries == 0]
FROM_FILE = [name for name in tasks() if needs_path(name)]


def write_lgbb(path, *, machs=12, alphas=6):
    """A small file in the format of lgbb_original.txt; lift is 10 + mach·alpha where beta = 0."""
    lines = ["# Langley glide-back booster", "# made for a test", " ".join(tables.LGBB_COLUMNS)]
    for mach in np.linspace(0.1, 6.0, machs):
        for alpha in np.linspace(-5, 30, alphas):
            for beta in (0, 0.5):
                lift = 10 + mach * alpha if beta == 0 else 1e6
                lines.append(f"  {mach:.17g}  {alpha:.17g} {beta}   {lift:.17g} 0.1 0.2 0.3 0.4 0.5")
    path.write_text("\n".join(lines) + "\n")
    return path


def write_close_pi(path, rows=40):
    x = np.random.default_rng(0).uniform(size=(rows, 6)) * [2, 3, 900, 500, 900, 10] + [0, 1, 300, 250, 950, -4]
    pd.DataFrame(np.column_stack([x, 80 + x[:, 0]]), columns=tables.NOISE_COLUMNS).to_csv(path, index=False)
    return path


# --- names


def test_every_task_of_the_issue_is_listed():
    assert {"exponential", "lgbb", "close-pi", "engine-hc", "engine-nox"} <= set(tasks())
    assert {"booster", "combustion", "oblique-2d", "oblique-4d", "curved", "jump", "stationary"} <= set(KNOWN)
    assert {"higdon", "gramacy-lee", "motorcycle"} <= set(KNOWN)
    assert len([name for name in FROM_FILE if name.startswith("engine-")]) == 7


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'oblique-2d'"):
        task("oblique2d")
    with pytest.raises(InputError, match="one of exponential, lgbb"):
        task("zzz")


def test_case_and_underscores_do_not_matter():
    assert task("Oblique_2D").name == "oblique-2d"


def test_a_path_for_a_known_function_is_refused():
    with pytest.raises(InputError, match="needs no file"):
        task("jump", path="jump.csv")


# --- every task that needs no file


@pytest.mark.parametrize("name", KNOWN)
def test_a_seed_fixes_everything_and_another_changes_it(name):
    problem = task(name)
    one, again, other = problem.realise(4), task(name).realise(4), problem.realise(5)
    for field in ("outputs", "first", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(one, field), getattr(again, field))
    np.testing.assert_array_equal(one.pool.unit, again.pool.unit)
    assert not np.array_equal(one.outputs, other.outputs)
    assert not np.array_equal(one.first, other.first)
    assert not np.array_equal(one.test_x, other.test_x)


@pytest.mark.parametrize("name", KNOWN)
def test_realisations_hold_together(name):
    problem = task(name)
    real = problem.realise(0)
    size = problem.num_first
    assert problem.name == real.task == name and problem.title and problem.description
    assert len(real.outputs) == len(real.pool) and real.first.shape == (size,) and (size == 5 or name in STATIC)
    assert len(set(real.first.tolist())) == size and real.first.max() < len(real.pool)
    assert problem.num_queries + size < len(real.pool) or name in STATIC
    assert real.test_x.shape == (len(real.test_y), problem.domain.num_axes) and not real.test_noisy
    assert real.test_unit.shape == (len(real.test_y), problem.domain.num_dims)
    if name not in SYSTEMS:
        np.testing.assert_array_equal(real.test_y, problem.truth(real.test_x))
    assert real.output(int(real.first[0])) == real.outputs[real.first[0]]
    with pytest.raises(DataError, match="index"):
        real.output(-1)


@pytest.mark.parametrize("name", KNOWN)
def test_noise_has_the_stated_size_and_is_white(name):
    problem = task(name)
    z = []
    for seed in range(4):
        real = problem.realise(seed)
        x = problem.domain.to_array(real.pool.points(range(len(real.pool))))
        z.append((real.outputs - truth_of(problem, x)) / problem.noise_std(x))
    flat = np.concatenate(z)
    error = 1 / np.sqrt(len(flat))
    assert abs(flat.mean()) < 4 * error and abs(flat.std() - 1) < 4 * error / np.sqrt(2)
    assert abs(np.mean(flat[1:] * flat[:-1])) < 4 * error
    size = min(map(len, z))
    assert abs(np.mean(z[0][:size] * z[1][:size])) < 4 / np.sqrt(size)  # seeds are independent


def truth_of(problem, x):
    """By the function, or, of a real system whose package is missing, by its table."""
    if problem.values is None:
        return problem.truth(x)
    known = {row.tobytes(): value for row, value in zip(problem.rows, problem.values, strict=True)}
    return np.array([known[row.tobytes()] for row in x])


@pytest.mark.parametrize("name", KNOWN)
def test_the_standardizer_brings_outputs_to_about_unit_spread(name):
    problem = task(name)
    z = problem.standardizer.transform(problem.realise(1).test_y)
    assert abs(z.mean()) < 0.16 and (0.4 if name == "exponential" else 0.8) < z.std() < 1.2


@pytest.mark.parametrize("name", KNOWN)
def test_a_task_travels_to_another_process(name):
    problem = task(name)
    there = ForkingPickler.loads(ForkingPickler.dumps(problem))  # what a process pool does
    np.testing.assert_array_equal(there.realise(0).outputs, problem.realise(0).outputs)


def test_sizes_change_only_their_own_set():
    problem = task("exponential")
    one, two = problem.realise(0), replace(problem, num_test=7).realise(0)
    np.testing.assert_array_equal(one.outputs, two.outputs)
    np.testing.assert_array_equal(one.first, two.first)
    assert len(two.test_y) == 7


def test_first_points_are_distinct_and_uniform_over_the_pool():
    problem = replace(task("jump"), num_pool=8, num_test=1)
    first = [problem.realise(seed).first for seed in range(400)]
    assert all(len(set(rows.tolist())) == 5 for rows in first)
    share = np.bincount(np.concatenate(first), minlength=8) / 400
    assert np.abs(share - 5 / 8).max() < 4 * np.sqrt(5 / 8 * 3 / 8 / 400)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InputError, match="seed"):
        task("jump").realise(seed)


@pytest.mark.parametrize("name", STATIC)
def test_a_static_design_is_a_latin_hypercube_that_every_method_learns_whole(name):
    problem = task(name)
    real = problem.realise(0)
    assert len(real.pool) == problem.num_first == int(name.rpartition("-")[2]) and set(real.first) == set(range(len(real.pool)))
    bins = np.floor(np.minimum(real.pool.unit, 1 - 1e-12) * len(real.pool)).astype(int)
    assert all(len(set(column)) == len(real.pool) for column in bins.T)  # one point in each slice of each input
    plain = task(name.rpartition("-")[0])
    np.testing.assert_array_equal(plain.truth(real.test_x), real.test_y)
    assert plain.num_queries == 60 and not np.array_equal(problem.realise(1).pool.unit, real.pool.unit)


def test_what_methods_share_cannot_be_written_to():
    real = task("jump").realise(0)
    with pytest.raises(ValueError, match="read-only"):
        real.outputs[0] = 1.0


def test_a_task_is_a_function_or_a_table():
    fields = dict(num_queries=1, noise=None, description="", standardizer=Standardizer(0, 1))
    with pytest.raises(InputError, match="has neither"):
        Task("own", "Own", Domain(x=Real(0, 1)), **fields)
    with pytest.raises(DataError, match="at least 6 rows"):
        Task("own", "Own", Domain(x=Real(0, 1)), **fields, rows=np.zeros((5, 1)), values=np.zeros(5))


# --- known truths


def test_exponential_is_the_papers(shared):
    problem = task("exponential")
    assert problem.domain.bounds == {"x1": (-2, 5), "x2": (-2, 5)} and problem.num_queries == 60
    assert problem.noise == pytest.approx(0.01 * 0.2)
    peak = problem.truth([{"x1": 2**-0.5, "x2": 0.0}])
    np.testing.assert_allclose(peak, 2**-0.5 * np.exp(-0.5))
    reference = pd.read_csv(shared / "data/reference/exp2d_test.csv")  # in the unit cube, five times the function
    x = problem.domain.from_unit_array(reference[["x1", "x2"]].to_numpy())
    np.testing.assert_allclose(problem.standardizer.transform(problem.truth(x)), reference["f"], atol=1e-6)


def test_higdon_is_that_of_the_reference(shared):
    reference = pd.read_csv(shared / "data/reference/higdon1d_test.csv")
    problem = task("higdon")
    np.testing.assert_allclose(problem.truth(20 * reference[["x1"]].to_numpy()), reference["f"], atol=1e-6)
    assert problem.noise == 0.1


def test_gramacy_lee_at_points_worked_out_by_hand():
    np.testing.assert_allclose(task("gramacy-lee").truth([[0.55], [1.0], [2.0]]), [-1 / 1.1 + 0.45**4, 0, 1], atol=1e-12)


def test_functions_of_the_literature_have_their_published_values():
    cessna = [[174, 252, 7.52, 0, 34, 0.672, 0.12, 3.8, 2000, 0.064]]
    assert task("wing-weight").truth(cessna)[0] - 174 * 0.064 == pytest.approx(233.9, abs=0.1)  # of a Cessna, without its paint
    rw, r, tu, hu, tl, hl, length, kw = point = (0.1, 25_000, 90_000, 1050, 90, 760, 1400, 11_000)
    ratio = np.log(r / rw)
    by_hand = 2 * np.pi * tu * (hu - hl) / (ratio * (1 + tu / tl) + 2 * length * tu / (rw**2 * kw))
    assert task("borehole").truth([point])[0] == pytest.approx(by_hand)
    assert task("friedman").truth([[0.5] * 10])[0] == pytest.approx(10 * np.sin(np.pi / 4) + 5 + 2.5)
    x = np.zeros((4, 20))
    x[1, 18], x[2, [11, 0]], x[3, [7, 15]] = 0.5, (0.5, -0.5), 0.3
    np.testing.assert_allclose(task("welch").truth(x), [0, 40 / 8 - 2.5, 5, 0], atol=1e-12)


def test_two_fluids_of_the_mixed_task_behave_alike_and_the_third_does_not():
    problem = task("mixed")
    points = problem.domain.to_frame(problem.realise(0).test_x)
    water, glycol, air = (problem.truth(points.assign(fluid=fluid)) for fluid in ("water", "glycol", "air"))
    assert np.corrcoef(water, glycol)[0, 1] == pytest.approx(1) and abs(np.corrcoef(water, air)[0, 1]) < 0.4


def test_booster_has_a_ridge_at_mach_1_that_fades_with_speed():
    problem = task("booster")
    mach = np.linspace(0, 6, 1201)
    at = lambda alpha: problem.truth(np.column_stack([mach, np.full_like(mach, alpha)]))  # noqa: E731
    steep, flat = at(30.0), at(-5.0)
    assert 1.0 < mach[steep.argmax()] < 1.25
    assert np.abs(np.diff(steep)).argmax() == pytest.approx(200, abs=6)  # steepest at mach 1
    beyond = steep[mach > 1.3]
    assert (np.diff(beyond) < 0).all()
    curvature = np.abs(np.diff(steep, 2))
    assert curvature[mach[2:] > 4].max() < 0.01 * curvature.max()  # almost linear to the right
    assert np.ptp(flat) < 0.01 * np.ptp(steep)  # the ridge belongs to steep angles
    assert (np.diff(problem.rows[::19, 0]) > 0).all() and np.mean(np.abs(problem.rows[:, 0] - 1) < 0.3) > 0.3


def test_combustion_varies_fastest_along_a_short_delay():
    problem = task("combustion")
    rng, step = np.random.default_rng(0), 1e-4
    u = rng.uniform(0.01, 0.99, (4000, 6))
    value = lambda u: problem.truth(problem.domain.from_unit_array(u))  # noqa: E731
    slopes = np.stack([(value(u + step * e) - value(u - step * e)) / (2 * step) for e in np.eye(6)], axis=1)
    rough = np.sqrt(np.mean(slopes**2, axis=0))
    assert rough.argmax() == 0 and rough[0] > 3 * rough[1:].max()
    short = u[:, 0] < 0.25
    assert np.sqrt(np.mean(slopes[short, 0] ** 2)) > 5 * np.sqrt(np.mean(slopes[u[:, 0] > 0.5, 0] ** 2))


@pytest.mark.parametrize("name", ["oblique-2d", "oblique-4d"])
def test_the_known_gates_part_the_regimes(name):
    problem = task(name)
    gates = problem.gates
    u = np.random.default_rng(0).uniform(size=(20_000, problem.domain.num_dims))
    for gate in gates:
        assert np.linalg.norm(gate.normal) == pytest.approx(1) and sum(abs(n) > 0.2 for n in gate.normal) > 1  # oblique
        assert 0.2 < np.mean(gate.weight(u) > 0.5) < 0.8
    y, first = problem.truth(u), gates[0].weight(u)
    plane = first < 1e-3  # there, and only there, a plane fits
    design = np.column_stack([np.ones(len(u)), u])
    residual = lambda rows: y[rows] - design[rows] @ np.linalg.lstsq(design[rows], y[rows])[0]  # noqa: E731
    assert np.std(residual(plane)) < 2e-3 < 0.1 < np.std(residual(first > 1 - 1e-3))
    if len(gates) == 2:  # the bowl is a quadratic without the first two inputs
        bowl = (first > 1 - 1e-3) & (gates[1].weight(u) > 1 - 1e-3)
        design = np.column_stack([np.ones(len(u)), u[:, 2:], u[:, 2:] ** 2])
        assert np.std(residual(bowl)) < 2e-3


def test_jump_jumps_by_one_across_its_line():
    problem = task("jump")
    u2 = np.linspace(0, 1, 11)
    border = (0.65 - 0.4 * u2) / 0.9
    step = problem.truth(np.column_stack([border + 1e-9, u2])) - problem.truth(np.column_stack([border - 1e-9, u2]))
    np.testing.assert_allclose(step, 1.0, atol=1e-6)


def test_curved_is_rough_inside_the_disc_and_plain_outside():
    problem = task("curved")
    u = np.random.default_rng(0).uniform(size=(5000, 2))
    y, radius = problem.truth(u), np.hypot(*u.T)
    np.testing.assert_allclose(y[radius > 0.95], 0.3 * (u[:, 0] - u[:, 1])[radius > 0.95], atol=1e-3)
    assert y[radius < 0.5].std() > 0.5


def test_draws_of_the_stationary_control_have_the_covariance_of_the_kernel():
    u = np.array([[0.2, 0.3], [0.4, 0.4], [0.5, 0.7]])
    draws = np.stack([truths.StationaryDraw(2, 0.3, seed, 200)(u) for seed in range(4000)])
    squared = np.sum((u[:, None] - u[None]) ** 2, axis=-1)
    # the error of an empirical covariance of unit Gaussians is at most √(2/4000) = 0.022
    np.testing.assert_allclose(draws.T @ draws / len(draws), np.exp(-0.5 * squared / 0.3**2), atol=4 * 0.0224)


def test_motorcycle_dips_and_its_noise_depends_on_the_time():
    problem = task("motorcycle")
    time = np.linspace(2.4, 57.6, 500)[:, None]
    y, std = problem.truth(time), problem.noise_std(time)
    assert time[y.argmin(), 0] == pytest.approx(21, abs=1) and y.min() < -100
    assert time[y.argmax(), 0] == pytest.approx(32, abs=1.5) and y.max() > 30
    assert (std > 0).all() and std[0] < 2 and std[time[:, 0] < 35].max() > 20 and std[-1] == pytest.approx(10, abs=0.5)


# --- tables


def test_lgbb_is_read_as_the_paper_prepares_it(tmp_path):
    problem = task("lgbb", write_lgbb(tmp_path / "lgbb.txt"))
    real = problem.realise(0)
    total = len(real.pool) + len(real.test_y)
    assert (total, len(real.test_y)) == (72, 22) and problem.num_queries == 120 and not real.test_noisy
    np.testing.assert_allclose(real.test_y, 10 + real.test_x.prod(axis=1))  # beta = 0 only, noise-free
    np.testing.assert_allclose(real.test_unit, (real.test_x - [0, -5]) / [6, 35], atol=1e-12)  # mach/6, (alpha + 5)/35
    lift = 10 + problem.rows.prod(axis=1)
    assert problem.standardizer.scale == pytest.approx(lift.std()) and problem.standardizer.loc == pytest.approx(lift.mean())
    assert problem.noise == pytest.approx(0.01 * lift.std())
    native = problem.domain.to_array(real.pool.points(range(len(real.pool))))
    noise = (real.outputs - 10 - native.prod(axis=1)) / problem.noise
    assert 0.6 < noise.std() < 1.4
    with pytest.raises(InputError, match="known at its rows only"):
        problem.truth(native)


def test_pool_and_test_set_of_a_table_share_no_row(tmp_path):
    problem = task("close-pi", write_close_pi(tmp_path / "close_pi.csv"))
    real = problem.realise(3)
    rows = np.vstack([problem.domain.to_array(real.pool.points(range(len(real.pool)))), real.test_x])
    assert len(np.unique(rows, axis=0)) == len(problem.rows) == 40 and len(real.test_y) == 12
    assert not np.array_equal(real.test_x, problem.realise(4).test_x)


def test_close_pi_keeps_what_was_measured(tmp_path):
    problem = task("close-pi", write_close_pi(tmp_path / "close_pi.csv"))
    real = problem.realise(0)
    assert problem.domain.names == tables.NOISE_COLUMNS[:-1] and real.test_noisy and problem.noise is None
    assert problem.noise_std(real.test_x) is None and not problem.truth_known
    native = problem.domain.to_array(real.pool.points(range(len(real.pool))))
    np.testing.assert_allclose(real.outputs, 80 + native[:, 0])
    unit = np.vstack([real.pool.unit, real.test_unit])
    np.testing.assert_allclose([unit.min(axis=0), unit.max(axis=0)], [[0] * 6, [1] * 6])


@pytest.mark.parametrize("name", [name for name in FROM_FILE if name.startswith("engine-")])
def test_the_public_engine_is_read_from_its_folder_or_file(shared, name):
    folder = shared / "data/pengines"
    problem = task(name, folder)
    real = problem.realise(0)
    assert len(real.pool) + len(real.test_y) == 795 and real.pool.unit.shape[1] == 4 and real.test_noisy
    assert "CC BY-SA 4.0" in problem.description
    np.testing.assert_array_equal(task(name, folder / "engine1.csv").realise(0).outputs, real.outputs)
    assert problem.standardizer.scale == pytest.approx(1, abs=0.01)


def test_the_stated_checksum_is_that_of_the_engine_data(shared):
    assert hashlib.sha256((shared / "data/pengines/engine1.csv").read_bytes()).hexdigest() == tables.ENGINE_SHA256


@pytest.mark.parametrize("name", FROM_FILE)
def test_without_a_file_the_message_says_where_and_in_which_format(name, tmp_path):
    words = {"lgbb": "Surrogates.*mach alpha beta lift", "close-pi": "not public.*Delay,Pilotinjection"}
    match = words.get(name, "CC BY-SA 4.0.*engine_speed,engine_load")
    with pytest.raises(InputError, match=rf"got no path. Give it with --path {name}=FILE.*path=….*{match}"):
        task(name)
    with pytest.raises(DataError, match=rf"there is none at .*nowhere.*{match}"):
        task(name, tmp_path / "nowhere.csv")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda text: text.replace("Delay", "Lag"), r"\['Delay'\] missing"),
        (lambda text: text.replace("\n", "\nx,", 1), "line 2|finite numbers"),
        (lambda text: "", "could not be read"),
        (lambda text: "\n".join(text.splitlines()[:7]), "at least 6 rows"),
    ],
)
def test_a_spoilt_table_is_refused(tmp_path, change, match):
    path = write_close_pi(tmp_path / "close_pi.csv")
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=match):
        task("close-pi", path)


def test_a_text_among_the_numbers_is_named_by_row_and_column(tmp_path):
    path = write_close_pi(tmp_path / "close_pi.csv")
    frame = pd.read_csv(path).astype(object)
    frame.loc[3, "Airmass"] = "n/a!"
    frame.to_csv(path, index=False)
    with pytest.raises(DataError, match=r"'n/a!' in line 5, column 'Airmass'"):
        task("close-pi", path)
    path = write_lgbb(tmp_path / "lgbb.txt")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], lines[4].replace(" 0.1 ", " ? "), *lines[5:]]) + "\n")  # two lines are comments
    with pytest.raises(DataError, match=r"'\?' in row 2 below the header, column 'drag'"):
        task("lgbb", path)


def test_lgbb_refuses_a_file_without_beta_0_or_outside_the_box(tmp_path):
    path = write_lgbb(tmp_path / "lgbb.txt")
    text = path.read_text()
    path.write_text("\n".join(line for line in text.splitlines() if " 0   " not in line))
    with pytest.raises(DataError, match="beta = 0"):
        task("lgbb", path)
    path.write_text(text + "7.5 0 0 1 1 1 1 1 1\n")
    with pytest.raises(DomainError, match=r"mach.*7\.5"):
        task("lgbb", path)


def test_a_spreadsheet_without_its_reader_says_so(tmp_path, monkeypatch):
    path = tmp_path / "engine1_normalized.xlsx"
    path.write_bytes(b"PK")

    def missing(path):
        raise ImportError("Missing optional dependency 'openpyxl'")

    monkeypatch.setattr(pd, "read_excel", missing)
    with pytest.raises(DataError, match=r"openpyxl.*save it as CSV"):
        task("engine-hc", path)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 5)), columns=[*tables.ENGINE_INPUTS, "HC"])
    monkeypatch.setattr(pd, "read_excel", lambda path: frame)
    assert len(task("engine-hc", path).rows) == 30


# --- fetching


def test_fetch_keeps_a_file_with_the_right_checksum_only(tmp_path):
    source = tmp_path / "source.csv"
    source.write_bytes(b"a,b\n1,2\n" * 20_000)
    right = hashlib.sha256(source.read_bytes()).hexdigest()
    target = tmp_path / "deep" / "target.csv"
    with pytest.raises(DataError, match=f"{'0' * 64}; got {right}"):
        tables.fetch(source.as_uri(), target, sha256="0" * 64)
    assert list(target.parent.iterdir()) == []
    assert tables.fetch(source.as_uri(), target, sha256=right.upper()) == target
    assert target.read_bytes() == source.read_bytes() and len(list(target.parent.iterdir())) == 1
    source.unlink()
    assert tables.fetch(source.as_uri(), target, sha256=right) == target  # nothing is downloaded again
    with pytest.raises(DataError, match="Move it away"):
        tables.fetch(source.as_uri(), target, sha256="0" * 64)


def test_fetch_says_what_went_wrong(tmp_path):
    with pytest.raises(DataError, match="could not be downloaded"):
        tables.fetch((tmp_path / "none.csv").as_uri(), tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="https://"):
        tables.fetch("ftp://somewhere/x.csv", tmp_path / "x.csv")


def test_bench_is_imported_lightly():
    code = "import sys, hyperleaf.bench\nassert not {'numpy', 'pandas', 'jax'} & set(sys.modules), 'heavy'\n"
    code += "from hyperleaf.bench import task\nassert not {'pandas', 'jax'} & set(sys.modules), 'heavy'\nassert task('jump')"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_at_the_door_of_bench_are_those_of_its_rooms():
    import hyperleaf.bench as bench

    for name in bench.__all__:
        assert getattr(bench, name).__module__ == f"hyperleaf.bench.{bench._HOME[name]}"
    with pytest.raises(AttributeError, match="nonsense"):
        bench.nonsense  # noqa: B018
