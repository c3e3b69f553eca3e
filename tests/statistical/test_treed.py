"""Is the treed GP's sampler right? Prior recovery, detailed balance of the moves, Geweke's joint test, agreement with R's tgp."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import jax
import numpy as np
import pytest
from numpyro.diagnostics import effective_sample_size
from scipy.stats import gamma

from hyperleaf.data import Dataset
from hyperleaf.surrogates.treed import TreedGP
from hyperleaf.surrogates.treed.leaf import LeafModel, draw_lengths, draw_nugget
from hyperleaf.surrogates.treed.moves import change, grow, prune, swap
from hyperleaf.surrogates.treed.sampler import Draw, Sampler, default_start
from hyperleaf.surrogates.treed.tree import Grid, Node, Split, height, num_leaves, partition

LINE = np.array([0.02, 0.15, 0.3, 0.42, 0.66, 0.71, 0.93])[:, None]
PLANE = np.array([[0.1, 0.8], [0.3, 0.2], [0.45, 0.55], [0.6, 0.9], [0.8, 0.35], [0.95, 0.2]])  # two rows share a value


def all_trees(grid: Grid, rows: np.ndarray, valid: Callable[[np.ndarray], bool]) -> Iterator[Node]:
    """Every valid tree over these rows, by recursion."""
    yield None
    for axis in range(grid.num_dims):
        for rank in range(len(grid.values[axis])):
            left = grid.ranks[rows, axis] <= rank
            if valid(rows[left]) and valid(rows[~left]):
                rights = list(all_trees(grid, rows[~left], valid))
                for branch in all_trees(grid, rows[left], valid):
                    yield from (Split(axis, rank, branch, other) for other in rights)


def prior_over_trees(grid: Grid, model: LeafModel) -> dict[Node, float]:
    trees = list(all_trees(grid, np.arange(grid.num_rows), model.is_valid))
    mass = np.exp([grid.log_prior(tree) for tree in trees])
    return dict(zip(trees, mass / mass.sum(), strict=True))


def assert_mean(name: str, chain: np.ndarray, expected: float, error: float = 0.0, multiple: float = 4.5) -> None:
    """The chain's mean lies within `multiple` Monte-Carlo standard errors of what it should be."""
    chain = np.asarray(chain, dtype=float)
    if np.ptp(chain) == 0:
        raise AssertionError(f"{name} never moves")
    standard = np.hypot(chain.std() / np.sqrt(effective_sample_size(chain[None])), error)
    z = (chain.mean() - expected) / standard
    assert abs(z) < multiple, f"{name}: {chain.mean():.4f} against {expected:.4f}, z = {z:.1f}"


# --- the prior comes back when the likelihood is switched off


def check_prior_recovery(x: np.ndarray, min_leaf: int, moves: int, trend: str = "none") -> None:
    grid = Grid.of(x, base=0.8, power=0.7)  # splits readily, so that deep trees are seen too
    model = LeafModel(x, np.zeros(len(x)), trend, min_leaf, likelihood=False)
    exact = prior_over_trees(grid, model)
    sampler = Sampler(model, grid, np.random.default_rng(len(x)), default_start(x.shape[1]))
    visited = []
    for _ in range(moves):
        sampler.tree_step()
        visited.append(sampler.tree)
    assert set(visited) <= set(exact)
    for name, kind in (("leaves", num_leaves), ("height", height)):
        values = np.array([kind(tree) for tree in visited])
        shares: dict[int, float] = defaultdict(float)
        for tree, mass in exact.items():
            shares[kind(tree)] += mass
        for value, mass in shares.items():
            if mass > 0.005:
                assert_mean(f"P({name} = {value})", values == value, mass)
    likeliest = sorted(exact, key=exact.__getitem__)[-12:]
    for tree in likeliest:
        assert_mean(f"P({tree})", np.array([v == tree for v in visited]), exact[tree])


def test_prior_over_trees_comes_back_on_the_line():
    check_prior_recovery(LINE, 0, 15_000)


def test_prior_over_trees_comes_back_in_the_plane():
    check_prior_recovery(PLANE, 0, 15_000)


def test_prior_over_trees_comes_back_with_a_trend_that_forbids_some_leaves():
    x = np.array([[0.1, 0.5], [0.2, 0.5], [0.3, 0.5], [0.4, 0.9], [0.6, 0.1], [0.7, 0.5], [0.8, 0.3], [0.9, 0.8]])
    check_prior_recovery(x, 2, 8_000, trend="linear")


def check_leaf_priors(rounds: int, tree: bool) -> None:
    """Without a likelihood d and g of every leaf follow their priors, whatever trees come and go."""
    grid = Grid.of(LINE, base=0.9, power=0.5)
    model = LeafModel(LINE, np.zeros(len(LINE)), "none", 0, likelihood=False)
    sampler = Sampler(model, grid, np.random.default_rng(8), default_start(1))
    chain = defaultdict(list)
    for _ in range(rounds):
        if tree:
            sampler.tree_step()
        sampler.leaves = [sampler.nugget_step(sampler.lengths_step(leaf)) for leaf in sampler.leaves]
        leaves = sampler.leaves
        chain["mean nugget"].append(np.mean([np.exp(-leaf.nugget) for leaf in leaves]))
        chain["first nugget"].append(np.exp(-leaves[0].nugget))
        chain["last nugget"].append(np.exp(-leaves[-1].nugget))
        chain["mean long"].append(np.mean([leaf.lengths[0] > 0.25 for leaf in leaves]))
        chain["first long"].append(leaves[0].lengths[0] > 0.25)
        chain["last short"].append(np.exp(-20 * leaves[-1].lengths[0]))
    long = 0.5 * np.exp(-5.0) + 0.5 * gamma(10, scale=0.1).sf(0.25)
    short = 0.5 * 0.5 + 0.5 * 3.0**-10
    for name, values in chain.items():
        assert_mean(name, values, 0.5 if "nugget" in name else long if "long" in name else short)


def test_leaf_parameters_keep_their_priors_without_data():
    check_leaf_priors(30_000, tree=False)


def test_leaf_parameters_keep_their_priors_while_trees_grow_and_shrink():
    check_leaf_priors(12_000, tree=True)


@pytest.mark.long
@pytest.mark.parametrize("x", [LINE, PLANE], ids=["line", "plane"])
def test_prior_over_trees_comes_back_in_long_runs(x):
    check_prior_recovery(x, 0, 300_000)


# --- each move and its reverse balance


def check_reverse_pairs(x: np.ndarray, min_leaf: int, tries: int, most: int) -> None:
    """For every tree: frequencies of proposals match the probabilities they claim, and the way back claims them mirrored."""
    grid = Grid.of(x)
    model = LeafModel(x, np.zeros(len(x)), "none", min_leaf)
    rows, rng = np.arange(len(x)), np.random.default_rng(0)
    trees = list(all_trees(grid, rows, model.is_valid))
    trees = [trees[i] for i in np.unique(np.linspace(0, len(trees) - 1, most).round().astype(int))]
    pairs: Counter[str] = Counter()
    for tree in trees:
        for move, reverse in ((grow, prune), (prune, grow), (change, change), (swap, swap)):
            proposals = [move(tree, grid, rng) for _ in range(tries)]
            seen = Counter(p.tree for p in proposals if p is not None)
            claims = {p.tree: p for p in proposals if p is not None}
            for reached, claim in claims.items():
                share = np.exp(claim.log_forward)
                assert abs(seen[reached] - tries * share) < 5 * np.sqrt(tries * share * (1 - share)) + 1e-9, (tree, reached)
                if not all(model.is_valid(part) for part in partition(reached, grid.ranks, rows)):
                    continue  # rejected whatever the ratio
                pairs[claim.kind] += 1
                ways_back = (reverse(reached, grid, rng) for _ in range(3000))
                back = next((p for p in ways_back if p is not None and p.tree == tree), None)
                assert back is not None, f"no way back from {reached} to {tree}"
                assert np.isclose(back.log_forward, claim.log_backward) and np.isclose(back.log_backward, claim.log_forward)
                assert {claim.kind, back.kind} in ({"grow", "prune"}, {"change"}, {"swap"}, {"rotate"})
    assert set(pairs) >= {"grow", "prune", "change", "rotate"} | ({"swap"} if x.shape[1] > 1 else set())


def test_moves_and_their_reverses_claim_each_others_probabilities_on_the_line():
    check_reverse_pairs(LINE[:5], 0, 150, 25)


def test_moves_and_their_reverses_claim_each_others_probabilities_in_the_plane():
    check_reverse_pairs(PLANE[1:], 0, 150, 25)


class Rugged(LeafModel):
    """An arbitrary marginal for every set of rows, so that balance is tested against a likelihood, too."""

    def leaf(self, block, lengths, nugget):
        leaf = super().leaf(block, lengths, nugget)
        leaf.constant = float(np.sin(1.0 + 7.0 * block.rows.sum() + 3.0 * len(block.rows)))
        return leaf


def test_accepted_moves_balance_between_every_two_trees():
    """In equilibrium the flow T → T' equals the flow T' → T, for each reversible pair of moves, under a rugged likelihood."""
    grid = Grid.of(PLANE, base=0.7, power=0.5)
    model = Rugged(PLANE, np.zeros(6), "none", 0, likelihood=False)
    trees = list(all_trees(grid, np.arange(6), model.is_valid))
    rows = {tree: partition(tree, grid.ranks, np.arange(6)) for tree in trees}
    score = {t: sum(model.leaf(model.block(r), (1.0, 1.0), 1.0).constant for r in rows[t]) + grid.log_prior(t) for t in trees}
    mass = np.exp(list(score.values()))
    exact = dict(zip(trees, mass / mass.sum(), strict=True))
    sampler = Sampler(model, grid, np.random.default_rng(1), default_start(2))
    visited, flows = [], Counter()
    for _ in range(25_000):
        before = sampler.tree
        sampler.tree_step()
        visited.append(sampler.tree)
        flows[before, sampler.tree] += before != sampler.tree
    for size in {num_leaves(tree) for tree in trees}:
        share = sum(p for tree, p in exact.items() if num_leaves(tree) == size)
        if share > 0.01:
            assert_mean(f"P({size} leaves)", np.array([num_leaves(tree) == size for tree in visited]), share)
    for tree in sorted(exact, key=exact.__getitem__)[-15:]:
        assert_mean(f"P({tree})", np.array([v == tree for v in visited]), exact[tree])
    # a stationary chain need not be reversible: here the flow between every two trees must be the same both ways
    assert all(abs(n - flows[b, a]) < 6 * np.sqrt(n + flows[b, a] + 1) for (a, b), n in list(flows.items()))


# --- Geweke: parameters given data, data given parameters, and the prior must come back


class Bounded(Sampler):
    """a > 1 in the prior: below that σ² has no usable moments, and Z would overflow."""

    def hyper_log_density(self, a: float, q: float) -> float:
        return super().hyper_log_density(a, q) if a > 1.0 else -np.inf


def draw_data(grid: Grid, x: np.ndarray, state: Draw, rng: np.random.Generator) -> np.ndarray:
    z = np.empty(len(x))
    rows_of_leaves = partition(state.tree, grid.ranks, np.arange(len(x)))
    for rows, lengths, nugget, variance in zip(rows_of_leaves, state.lengths, state.nuggets, state.variances, strict=True):
        squares = (((x[rows, None] - x[rows]) ** 2) / np.array(lengths)).sum(-1)
        root = np.linalg.cholesky(variance * (np.exp(-squares) + nugget * np.eye(len(rows))))
        z[rows] = root @ rng.standard_normal(len(rows))
    return z


def statistics(state: Draw, z: np.ndarray) -> dict[str, float]:
    """Bounded functions of everything: the prior of σ² has no moments."""
    several, spread = float(state.tree is not None), abs(z[0] - z[-1])
    values = {
        "leaves": num_leaves(state.tree),
        "height": height(state.tree),
        "length": np.mean([d / (0.3 + d) for d in state.lengths[0]]),
        "last length": np.mean([d / (0.3 + d) for d in state.lengths[-1]]),
        "nugget": np.exp(-state.nuggets[0]),
        "shape": state.shape / (5 + state.shape),
        "scale": np.exp(-10 * state.scale),
        "variance": state.variances[0] / (0.02 + state.variances[0]),
        "data": spread / (0.2 + spread),
        "data, split": several * spread / (0.2 + spread),
        "length, data": spread / (0.2 + spread) * state.lengths[0][0] / (0.3 + state.lengths[0][0]),
        "nugget, data": np.exp(-state.nuggets[-1]) * abs(z[1] - z[0]) / (0.2 + abs(z[1] - z[0])),
    }
    return {name: float(value) for name, value in values.items()}


def check_geweke(x: np.ndarray, tree: bool, trend: str, rounds: int, seed: int) -> None:
    """Alternate a round given Z with Z given the state: a chain whose stationary law is the joint prior of both.

    With a flat trend only contrasts of Z carry information; Z with β = 0 has the right ones, so a single leaf may keep its trend.
    """
    grid, rng, (n, d) = Grid.of(x, base=0.7, power=1.0), np.random.default_rng(seed), x.shape
    exact = prior_over_trees(grid, LeafModel(x, np.zeros(n), trend, 1)) if tree else {None: 1.0}
    trees, masses = list(exact), np.array(list(exact.values()))

    def from_prior() -> Draw:
        node = trees[rng.choice(len(trees), p=masses)]
        leaves = range(num_leaves(node))
        a, q = 1.0 + rng.exponential(5.0), rng.exponential(0.1)
        variances = tuple(0.5 * q / rng.standard_gamma(0.5 * a) for _ in leaves)
        return Draw(node, tuple(draw_lengths(d, rng) for _ in leaves), tuple(draw_nugget(rng) for _ in leaves), variances, a, q)

    independent, chain = defaultdict(list), defaultdict(list)
    for _ in range(4000):
        state = from_prior()
        for name, value in statistics(state, draw_data(grid, x, state, rng)).items():
            independent[name].append(value)
    state = from_prior()
    for _ in range(rounds):
        z = draw_data(grid, x, state, rng)
        sampler = Bounded(LeafModel(x, z, trend, 1), grid, rng, state, tree=False)
        if tree:
            sampler.tree_step()
        sampler.round()
        state = sampler.draw()
        for name, value in statistics(state, z).items():
            chain[name].append(value)
    for name, values in chain.items():
        if not tree and name in ("leaves", "height", "data, split"):
            continue
        reference = np.array(independent[name])
        assert_mean(name, np.array(values), reference.mean(), reference.std() / np.sqrt(len(reference)))


@pytest.mark.parametrize("trend", ["linear", "none"])
def test_geweke_one_leaf(trend):
    check_geweke(PLANE, tree=False, trend=trend, rounds=4000, seed=1)


def test_geweke_trees_on_the_line():
    check_geweke(LINE, tree=True, trend="none", rounds=4000, seed=2)


@pytest.mark.long
@pytest.mark.parametrize("x", [LINE, PLANE], ids=["line", "plane"])
@pytest.mark.parametrize("tree", [True, False])
def test_geweke_in_long_runs(x, tree):
    check_geweke(x, tree, "none", rounds=60_000, seed=3)


# --- R's tgp


def table(shared, name: str) -> np.ndarray:
    return np.loadtxt(shared / "data" / "reference" / name, delimiter=",", skiprows=1)


def predictive(surrogate: TreedGP, data: Dataset, x: np.ndarray, seed: int) -> np.ndarray:
    """Mean and predictive standard deviation (2, m). tgp splits at its prediction points, too: so does this."""
    means, variances, noise = surrogate.fit(data, key=jax.random.key(seed), locations=x).moments(x)
    noise = noise[:, None] if noise.ndim == 1 else noise
    return np.stack([means.mean(0), np.sqrt((variances + noise).mean(0) + means.var(0))])


def check_against_tgp(shared, name: str, kind: str, surrogate: TreedGP, seeds: range, multiple: float) -> None:
    """Run averages differ by less than `multiple` standard errors, as six runs of tgp and our own runs show them.

    The spread of six runs is itself uncertain, so at each point it counts as no less than its root mean square over all points.
    """
    train, test, reference = (table(shared, f"{name}_{part}.csv") for part in ("train", "test", f"tgp_{kind}"))
    x = test[:, :-1]
    runs = np.stack([predictive(surrogate, Dataset(train[:, :-1], train[:, -1]), x, seed) for seed in seeds])
    for i, what in enumerate(("mean", "sd")):
        ours, theirs, spread = runs[:, i], reference[:, 2 * i], reference[:, 2 * i + 1]
        spread = np.maximum(spread, np.sqrt((spread**2).mean()))
        own = ours.std(0, ddof=1) if len(seeds) > 1 else 2.0 * spread  # 5000 rounds instead of 20 000 double the error
        z = (ours.mean(0) - theirs) / np.sqrt(spread**2 / 6 + own**2 / len(seeds))
        assert np.abs(z).max() < multiple and np.sqrt((z**2).mean()) < multiple / 2, f"{what}: z up to {np.abs(z).max():.1f}"


@pytest.mark.parametrize(("name", "kind"), [("step1d", "bgp"), ("higdon1d", "btgp")])
def test_one_default_run_agrees_with_tgp(shared, name, kind):
    check_against_tgp(shared, name, kind, TreedGP(tree=kind == "btgp", trend_uncertainty=False), range(1), 4.5)


LONG_CHAIN = TreedGP(total=22_000, thin=10, trend_uncertainty=False)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "kind"), [("step1d", "bgp"), ("step1d", "btgp"), ("higdon1d", "bgp"), ("higdon1d", "btgp"), ("exp2d", "bgp")]
)
def test_six_long_runs_agree_with_tgp(shared, name, kind):
    surrogate = TreedGP(**{**vars(LONG_CHAIN), "tree": kind == "btgp"})
    check_against_tgp(shared, name, kind, surrogate, range(6), 4.5)


@pytest.mark.long
def test_trees_on_the_plane_are_as_good_as_those_of_tgp(shared):
    """tgp's chains do not mix here (RMSE 0.124–0.303 over six runs): only the error against the truth is compared."""
    train, test = table(shared, "exp2d_train.csv"), table(shared, "exp2d_test.csv")
    data = Dataset(train[:, :-1], train[:, -1])
    errors = [np.sqrt(np.mean((predictive(LONG_CHAIN, data, test[:, :-1], seed)[0] - test[:, -1]) ** 2)) for seed in range(6)]
    assert np.median(errors) < 0.303 and min(errors) < 0.17, errors
