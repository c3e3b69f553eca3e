"""Methods × tasks × seeds: each run a study in one store, so that a campaign can be killed at any moment and goes on.

A run is deterministic in its task, method and seed, whatever happens on the way: queries come from the study, outputs from the
task's realisation, and scores are written under the number of observations they belong to, each once. So the table of an
interrupted campaign that was resumed equals that of an undisturbed one, seconds apart.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperleaf.bench.methods import Method, method
from hyperleaf.bench.tasks import Realisation, Task, needs_path, task
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.storage import NewQuery, Storage, StudyNotFoundError, open_storage

SCORES = "scores"
SNAPSHOTS = (10, 60)  # queries after which the surrogate is kept, for the paper's maps
KEEP_SEED = 0  # of which seed


@dataclass(frozen=True)
class Campaign:
    """A comparison. `queries` None means those of each task; `paths` lead to tables that tasks read from files."""

    name: str
    tasks: tuple[str, ...]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    queries: int | None = None
    paths: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, values in (("tasks", self.tasks), ("methods", self.methods), ("seeds", self.seeds)):
            if not values:
                raise InputError(f"a campaign must have {what}; got none.")
        names = [one.name for one in self.methods]
        if len(set(names)) < len(names) or len(set(self.tasks)) < len(self.tasks) or len(set(self.seeds)) < len(self.seeds):
            raise InputError("tasks, methods and seeds of a campaign must differ from each other; one is named twice.")
        for name in self.tasks:
            if needs_path(name) and name not in self.paths:
                task(name)  # says where the table is to be had
        if self.queries is not None and self.queries < 1:
            raise InputError(f"queries must be at least 1; got {self.queries}.")

    def runs(self) -> list[Run]:
        """Seed by seed, so that a campaign that is stopped early has complete pairs."""
        order = [(seed, name, one) for seed in self.seeds for name in self.tasks for one in self.methods]
        return [Run(name, self.paths.get(name), one, seed, self.queries) for seed, name, one in order]


@dataclass(frozen=True)
class Run:
    """One method on one task with one seed."""

    task: str
    path: str | None
    method: Method
    seed: int
    queries: int | None

    @property
    def study(self) -> str:
        """The name of its study."""
        return f"{self.task}/{self.method.name}/{self.seed}"


def make_campaign(
    name: str,
    tasks: Iterable[str],
    methods: Iterable[str | Method],
    seeds: int | Iterable[int] = 5,
    queries: int | None = None,
    paths: Mapping[str, str] | None = None,
) -> Campaign:
    """A campaign from names; `seeds` may be how many."""
    numbers = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    chosen = tuple(one if isinstance(one, Method) else method(one) for one in methods)
    return Campaign(name, tuple(tasks), chosen, numbers, queries, dict(paths or {}))


RIVALS = ("hhk", "random", "stationary", "warped", "treed", "deep")
CRITERIA = ("hhk", "hhk-variance", "hhk-bald", "hhk-qbc", "hhk-alc", "hhk-epig", "random", "space-filling")
PRESETS: dict[str, dict[str, Any]] = {
    "quick": {
        "tasks": ("exponential", "oblique-2d"),
        "methods": ("hhk", "random", "stationary", "treed"),
        "seeds": 3,
        "queries": 20,
    },
    "paper": {"tasks": ("exponential", "booster", "oblique-2d"), "methods": RIVALS, "seeds": 30},
    "trees": {"tasks": ("exponential", "booster"), "methods": ("hhk-1", "hhk-2", "hhk-4", "hhk", "hhk-evidence"), "seeds": 30},
    "inference": {"tasks": ("exponential",), "methods": ("hhk", "hhk-map", "hhk-nuts", "hhk-hmc"), "seeds": 5},
    "criteria": {"tasks": ("exponential", "oblique-2d", "engine-hc"), "methods": CRITERIA, "seeds": 10},
    "control": {"tasks": ("stationary",), "methods": ("hhk", "hhk-evidence", "stationary", "random"), "seeds": 10},
}


def preset(name: str, **changes: Any) -> Campaign:
    """One of the campaigns that come with hyperleaf, with some of its parts replaced."""
    if name not in PRESETS:
        raise InputError(f"a campaign must be one of {', '.join(PRESETS)}; got {name!r}.")
    parts = {**PRESETS[name], **{key: value for key, value in changes.items() if value is not None}}
    return make_campaign(name, **parts)


# --- one run -----------------------------------------------------------------------------------------------------------------


def do_run(run: Run, url: str | Storage, folder: str | None = None, on_step: Callable[[int, int], None] | None = None) -> str:
    """Carry a run to its end, from wherever it stands; the name of its study. Can be called in any process."""
    from hyperleaf.study import Study

    storage = open_storage(url)
    problem = task(run.task, run.path)
    world = problem.realise(run.seed)
    study = _study(Study, storage, run, problem, world, folder)
    target = problem.num_first + (problem.num_queries if run.queries is None else run.queries)
    scores = read_scores(storage, run.study)
    while True:
        record = study.record()
        num = len(record.observations)
        if str(num) not in scores:
            before = dict(study.seconds)
            model = study.models["y"]
            scores[str(num)] = {**_score(model, world), "seconds": _spent(study, before)}
            if run.seed == KEEP_SEED and num - problem.num_first in SNAPSHOTS:
                _keep_snapshot(storage, run, study, num)
            storage.put_artifact(run.study, SCORES, json.dumps(scores).encode())
        if on_step is not None:
            on_step(num - problem.num_first, target - problem.num_first)
        if num >= target:
            break
        before = dict(study.seconds)
        (query,) = study.ask()
        if query.index is None:
            raise HyperleafError(f"the study {run.study!r} asked for a point that is no row of its pool.")
        study.tell(query, y=world.output(query.index))
        scores[str(num)]["seconds"] += _spent(study, before)
    study.save()
    if not isinstance(url, str):
        return run.study
    storage.close()
    return run.study


def _study(kind: Any, storage: Storage, run: Run, problem: Task, world: Realisation, folder: str | None) -> Any:
    """The study of a run, made if it is not there; all its first points are told, or none."""
    try:
        study = kind(storage, run.study, folder or ".")
    except StudyNotFoundError:
        study = kind.create(
            run.study,
            problem.domain,
            "y",
            storage=storage,
            seed=run.seed,
            surrogate=run.method.surrogate,
            acquisition=run.method.acquisition,
            design={"size": problem.num_first},
            pool=world.pool,
        )
    if not study.record().queries:
        new = [
            NewQuery(world.pool.points(int(row))[0], "design", index=int(row), outputs={"y": world.output(int(row))})
            for row in world.first
        ]
        storage.append(run.study, new, version=None, now=time.time())
    return study


def _score(model: Any, world: Realisation) -> dict[str, float]:
    from hyperleaf.bench.statistics import scores

    predicted = model.predict(world.test_unit)
    found = scores(predicted.noisy() if world.test_noisy else predicted, world.test_y)
    return {name: float(value) for name, value in found._asdict().items()}


def _spent(study: Any, before: Mapping[str, float]) -> float:
    return sum(study.seconds[name] - before[name] for name in ("learning", "choosing"))


def _keep_snapshot(storage: Storage, run: Run, study: Any, num: int) -> None:
    """The surrogate as a file would hold it, under model-N."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        storage.put_artifact(run.study, f"model-{num}", study.save_model(Path(folder) / "model.npz").read_bytes())


def read_scores(storage: Storage, study: str) -> dict[str, dict[str, float]]:
    """What was measured, by the number of observations."""
    payload = storage.artifact(study, SCORES)
    return {} if payload is None else json.loads(payload.decode())


# --- all of them -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How far a campaign is: queries done of all, runs that ended, failed ones with the reason."""

    done: int
    total: int
    ended: int
    runs: int
    failed: Mapping[str, str] = field(default_factory=dict)


def run_campaign(
    campaign: Campaign,
    url: str,
    *,
    jobs: int | str | Executor = 1,
    folder: str | None = None,
    progress: Callable[[Standing], None] | None = None,
    every: float = 2.0,
) -> Standing:
    """Carry out what is left of a campaign. A run that fails is reported at the end and does not stop the others."""
    from concurrent.futures import FIRST_COMPLETED, wait

    from hyperleaf.executors import executor

    storage = open_storage(url)
    runs = [run for run in campaign.runs() if not _is_complete(storage, run)]
    failed: dict[str, str] = {}
    alone = jobs == 1 or jobs == "serial"

    def say() -> Standing:
        standing = measure(campaign, storage, failed)
        if progress is not None:
            progress(standing)
        return standing

    with executor(jobs) as workers:
        waiting = list(runs)
        running: dict[Any, Run] = {}
        slots = _slots(jobs)
        say()
        while waiting or running:
            while waiting and len(running) < slots:
                run = waiting.pop(0)
                running[workers.submit(_worker, run, url, folder, not alone)] = run
            done, _ = wait(running, timeout=every, return_when=FIRST_COMPLETED)
            for future in done:
                run = running.pop(future)
                error = future.exception()
                if isinstance(error, HyperleafError):
                    failed[run.study] = str(error)
                elif error is not None:
                    failed[run.study] = f"{type(error).__name__}: {error}"
            say()
    standing = say()
    storage.close()
    return standing


def _worker(run: Run, url: str, folder: str | None, one_core: bool) -> str:
    if one_core:  # runs side by side share the cores by running one each
        os.environ["HYPERLEAF_THREADS"] = "1"
    from hyperleaf.compilation import enable_compilation_cache

    enable_compilation_cache()
    return do_run(run, url, folder)


def _slots(jobs: Any) -> int:
    if isinstance(jobs, int):
        return jobs
    if isinstance(jobs, str):
        tail = jobs.rpartition(":")[2]
        return int(tail) if tail.isdigit() and not jobs.startswith("dask") else 64 if jobs.startswith("dask") else 1
    return int(getattr(jobs, "_max_workers", 1))


def _target(run: Run) -> tuple[int, int]:
    problem = task(run.task, run.path)
    return problem.num_first, problem.num_first + (problem.num_queries if run.queries is None else run.queries)


def _is_complete(storage: Storage, run: Run) -> bool:
    return str(_target(run)[1]) in read_scores(storage, run.study)


def measure(campaign: Campaign, storage: Storage, failed: Mapping[str, str] | None = None) -> Standing:
    """How far a campaign is."""
    names = set(storage.study_names())
    done = total = ended = 0
    ends: dict[str, tuple[int, int]] = {}
    runs = campaign.runs()
    for run in runs:
        if run.task not in ends:
            ends[run.task] = _target(run)
        first, last = ends[run.task]
        total += last - first
        reached = max((int(n) for n in read_scores(storage, run.study)), default=first) if run.study in names else first
        done += min(reached, last) - first
        ended += reached >= last
    return Standing(done, total, ended, len(runs), dict(failed or {}))


def results(campaign: Campaign, storage: Storage) -> Any:
    """All scores as a tidy DataFrame: method, task, seed, n, rmse, nlpd, crps, coverage, seconds."""
    import pandas as pd

    from hyperleaf.bench.summaries import COLUMNS

    names = set(storage.study_names())
    rows = []
    for run in campaign.runs():
        if run.study not in names:
            continue
        last = _target(run)[1]
        for n, values in read_scores(storage, run.study).items():
            if int(n) <= last:
                rows.append({"method": run.method.name, "task": run.task, "seed": run.seed, "n": int(n), **values})
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["task", "method", "seed", "n"], ignore_index=True)


def designs(campaign: Campaign, storage: Storage) -> Any:
    """All queries as a tidy DataFrame: method, task, seed, n (observations before it), index, y."""
    import pandas as pd

    names = set(storage.study_names())
    rows = []
    for run in campaign.runs():
        if run.study not in names:
            continue
        record = storage.read(run.study)
        told = {one.query_id: one.outputs["y"] for one in record.observations}
        for n, query in enumerate(query for query in record.queries if query.id in told):
            rows.append(
                {"method": run.method.name, "task": run.task, "seed": run.seed, "n": n, "index": query.index, "y": told[query.id]}
            )
    return pd.DataFrame(rows, columns=["method", "task", "seed", "n", "index", "y"])


def cross_scores(
    campaign: Campaign, storage: Storage, models: Sequence[str], at: Sequence[int], progress: Callable[[str], None] | None = None
) -> Any:
    """Model effect and design effect apart: every model in `models` fitted to the first n points that every method chose.

    Columns model, design, task, seed, n and the scores. Fits are from scratch, so a model on its own design is fitted anew too.
    """
    import jax
    import numpy as np
    import pandas as pd

    from hyperleaf.surrogates.learned import Learned
    from hyperleaf.surrogates.named import make_surrogate

    chosen = designs(campaign, storage)
    rows = []
    for (name, design, seed), points in chosen.groupby(["task", "method", "seed"], sort=False):
        problem = task(str(name), campaign.paths.get(str(name)))
        world = problem.realise(int(seed))
        order = points.sort_values("n")["index"].to_numpy(dtype=int)
        for n in at:
            if n > len(order):
                continue
            for model in models:
                options = dict(method(model).surrogate)
                surrogate = make_surrogate(options.pop("kind"), problem.domain.num_dims, **options)
                key = jax.random.fold_in(jax.random.key(int(seed)), n)
                rows_used = order[:n]
                learned = Learned.fit(surrogate, world.pool.unit[rows_used], np.asarray(world.outputs)[rows_used], key=key)
                rows.append({"model": model, "design": design, "task": name, "seed": int(seed), "n": n, **_score(learned, world)})
                if progress is not None:
                    progress(f"{model} on the points of {design}, {name}, seed {seed}, n = {n}")
    columns = ["model", "design", "task", "seed", "n", "rmse", "nlpd", "crps", "coverage"]
    return pd.DataFrame(rows, columns=columns)
