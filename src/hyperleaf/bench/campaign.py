"""Methods × tasks × seeds: each run a study in one store, so that a campaign can be killed at any moment and goes on.

`Campaign` says what is compared, `preset` and `read_campaign` name such comparisons, and `run_campaign` carries out what is left
of one, here or in other processes. Because every run is deterministic (see `runs`), the table of a campaign that was interrupted
and resumed equals that of an undisturbed one, seconds apart. What came of it is read by `outcomes`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyperleaf.bench.files import read_campaign
from hyperleaf.bench.methods import METHODS, Method, method
from hyperleaf.bench.outcomes import cross_scores as cross_scores, designs as designs, results as results
from hyperleaf.bench.runs import Run as Run, do_run as do_run, read_about, read_scores as read_scores
from hyperleaf.bench.tasks import needs_path, task, tasks
from hyperleaf.checks import alike, whole_number
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.storage import Storage, open_storage


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
        for what, names in (("task", self.tasks), ("method", [one.name for one in self.methods]), ("seed", self.seeds)):
            twice = [name for i, name in enumerate(names) if name in names[:i]]
            if twice:
                raise InputError(f"a campaign has each {what} once; {twice[0]!r} is named twice.")
        for one in self.methods:
            if not re.fullmatch(r"[\w.+-]{1,60}", one.name):
                raise InputError(f"the name of a method must be letters, digits and . + - _ (at most 60); got {one.name!r}.")
        for seed in self.seeds:
            whole_number("a seed", seed, 0)
        for name in self.paths:
            if not needs_path(name):
                raise InputError(f"the task {name!r} reads no file; got the path {self.paths[name]!r} for it. Leave it out.")
        for name in self.tasks:
            if needs_path(name) and name not in self.paths:
                task(name)  # says where the table is to be had
        if self.queries is not None and (isinstance(self.queries, bool) or self.queries < 1):
            raise InputError(f"queries must be at least 1; got {self.queries}.")

    def runs(self) -> list[Run]:
        """Seed by seed, so that a campaign that is stopped early has complete pairs."""
        order = [(seed, name, one) for seed in self.seeds for name in self.tasks for one in self.methods]
        return [Run(name, self.paths.get(name), one, seed, self.queries) for seed, name, one in order]


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
    files = {_task_name(key): str(Path(value).expanduser().resolve()) for key, value in (paths or {}).items()}
    return Campaign(name, tuple(_task_name(one) for one in tasks), chosen, numbers, queries, files)


def _task_name(name: str) -> str:
    """As `tasks()` spells it."""
    needs_path(name)  # refuses a task that is not known
    return str(name).strip().lower().replace("_", "-")


RIVALS = ("hhk", "random", "stationary", "warped", "treed", "deep")
CRITERIA = ("hhk", "hhk-variance", "hhk-bald", "hhk-qbc", "hhk-alc", "hhk-epig", "random", "space-filling")
OUTSIDE = ("botorch", "botorch-nipv", "sklearn")
REAL = ("co2", "co2-cp", "h2", "foil-2d", "foil-4d", "foil-drag", "b777-thrust", "b777-sfc")
WIDE = ("combustion", "foil-8d", "borehole", "wing-weight", "friedman", "welch")
STATIC = ("borehole-40", "wing-weight-50", "friedman-50", "welch-60")
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
    "real": {"tasks": REAL, "methods": ("hhk", "stationary-linear", *OUTSIDE), "seeds": 10, "queries": 60},
    "wide": {"tasks": WIDE, "methods": ("hhk", *RIVALS[2:], "botorch", "sklearn"), "seeds": 10, "queries": 60},
    "static": {"tasks": STATIC, "methods": ("hhk", "hhk-1", "stationary-linear", *OUTSIDE[::2], "botorch-saas"), "seeds": 10},
    "control": {"tasks": ("stationary",), "methods": ("hhk", "hhk-evidence", "stationary", "random"), "seeds": 10},
}


def preset(name: str, **changes: Any) -> Campaign:
    """One of the campaigns that come with hyperleaf, or that of a TOML file, with some of its parts replaced."""
    if str(name).endswith(".toml"):
        parts = read_campaign(name)
    elif name in PRESETS:
        parts = {"name": name, **PRESETS[name]}
    else:
        known = ", ".join(PRESETS)
        raise InputError(f"a campaign must be one of {known}, or a file that ends in .toml; got {name!r}.{alike(name, PRESETS)}")
    changes = {key: value for key, value in changes.items() if value is not None}
    if "methods" in changes:  # names may be those of the file's own methods
        own = {one.name: one for one in parts["methods"] if isinstance(one, Method)}
        changes["methods"] = [own.get(one, one) for one in changes["methods"]]
    paths = {**parts.get("paths", {}), **changes.pop("paths", {})}
    return make_campaign(**{**parts, **changes, "paths": paths})


def stored_campaign(storage: Storage, paths: Mapping[str, str] | None = None) -> Campaign:
    """Everything that a store holds as one campaign: all tasks, methods and seeds that occur in it."""
    found = [about for name in storage.study_names() if (about := read_about(storage, name))]
    if not found:
        raise InputError(f"the store {storage.url} holds no run of a campaign. Begin one with: hyperleaf bench run")
    methods: dict[str, Method] = {}
    for about in found:
        own = Method(about["method"], about["title"], about["surrogate"], about["acquisition"])
        known = methods.setdefault(own.name, own)
        if known.surrogate != own.surrogate or known.acquisition != own.acquisition:
            raise InputError(
                f"the store {storage.url} holds runs of two methods with the name {own.name!r}. Use a store for each."
            )
    files = {about["task"]: about["path"] for about in found if about["path"] is not None} | dict(paths or {})
    order = {name: i for i, name in enumerate(tasks())}
    names = sorted({about["task"] for about in found}, key=lambda name: order.get(name, len(order)))
    ranks = {name: i for i, name in enumerate(METHODS)}
    chosen = sorted(methods.values(), key=lambda one: (ranks.get(one.name, len(ranks)), one.name))
    seeds = sorted({about["seed"] for about in found})
    default = {name: task(name, files.get(name)).num_queries for name in names}
    same = all(about["queries"] == default[about["task"]] for about in found)
    return make_campaign("stored", names, chosen, seeds, None if same else max(about["queries"] for about in found), files)


# --- carrying it out ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """How far a campaign is: queries done of all, runs that ended of all, failed ones with the reason, those at work now."""

    done: int
    total: int
    ended: int
    runs: int
    failed: Mapping[str, str] = field(default_factory=dict)
    at_work: tuple[str, ...] = ()


def run_campaign(
    campaign: Campaign,
    url: str,
    *,
    jobs: int | str | Executor = 1,
    folder: str | None = None,
    progress: Callable[[Standing], None] | None = None,
    every: float = 2.0,
) -> Standing:
    """Carry out what is left of a campaign. A run that fails is reported at the end and does not stop the others.

    `jobs` is as for `executor`; with one, runs are made here. `progress` is called now and then, at least `every` seconds apart
    while runs go on.
    """
    from hyperleaf.executors import DaskExecutor, ProcessExecutor, SerialExecutor, executor, num_slots

    url = absolute_url(url)
    storage = open_storage(url)
    ended: dict[str, int] = {}  # runs that need not be looked at again
    failed: dict[str, str] = {}
    running: dict[Any, Run] = {}

    def say() -> Standing:
        at_work = tuple(run.study for run in running.values())
        standing = measure(campaign, storage, failed, ended, at_work)
        if progress is not None:
            progress(standing)
        return standing

    def step(*_: int) -> None:
        if progress is not None:
            say()

    try:
        say()
        waiting = [run for run in campaign.runs() if run.study not in ended]
        with executor(jobs) as workers:
            alone = isinstance(workers, SerialExecutor)
            apart = isinstance(workers, ProcessExecutor | DaskExecutor)
            slots = num_slots(workers)
            while waiting or running:
                while waiting and len(running) < slots:
                    run = waiting.pop(0)
                    if alone:
                        running[None] = run
                        future = workers.submit(do_run, run, url, folder, step)
                        running.clear()
                    else:
                        future = workers.submit(_worker, run, url, folder, apart)
                    running[future] = run
                done, _ = wait(running, timeout=every, return_when=FIRST_COMPLETED)
                for future in done:
                    run = running.pop(future)
                    error = future.exception()
                    if error is not None:
                        failed[run.study] = (
                            str(error) if isinstance(error, HyperleafError) else f"{type(error).__name__}: {error}"
                        )
                say()
        return say()
    finally:
        storage.close()


def _worker(run: Run, url: str, folder: str | None, apart: bool) -> str:
    """A run in a process of its own."""
    if apart:
        os.environ["HYPERLEAF_THREADS"] = "1"  # runs side by side share the cores by taking one each
        from hyperleaf.compilation import enable_compilation_cache

        with suppress(InputError):  # no folder for it: then every worker compiles by itself
            enable_compilation_cache()
    return do_run(run, url, folder)


def absolute_url(url: str) -> str:
    """The address of a store with the path of a SQLite file in full, for workers in other folders."""
    path = url.removeprefix("sqlite:///")
    if path == url or not path or path == ":memory:":
        return url
    return f"sqlite:///{Path(path).expanduser().resolve()}"


def measure(
    campaign: Campaign,
    storage: Storage,
    failed: Mapping[str, str] | None = None,
    ended: dict[str, int] | None = None,
    at_work: tuple[str, ...] = (),
) -> Standing:
    """How far a campaign is. `ended` remembers runs that need not be read again."""
    ended = {} if ended is None else ended
    names = set(storage.study_names())
    done = total = 0
    runs = campaign.runs()
    for run in runs:
        first, last = run.ends
        total += last - first
        if run.study not in ended and run.study in names:
            scored = [int(n) for n in read_scores(storage, run.study)]  # a static design has nothing but the first
            if max(scored, default=-1) >= last:
                ended[run.study] = last - first
            else:
                done += max(scored, default=first) - first
        done += ended.get(run.study, 0)
    return Standing(done, total, sum(run.study in ended for run in runs), len(runs), dict(failed or {}), at_work)
