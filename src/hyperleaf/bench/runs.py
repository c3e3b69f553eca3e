"""One run: one method on one task with one seed, as a study that goes on from wherever a kill left it.

A run is deterministic in its task, method and seed, whatever happens on the way: queries come from the study, outputs from the
task's realisation, and scores are written under the number of observations they belong to, each once. What a kill can leave half
done is a study without its first points, or a query without its answer; both are made whole before anything else is asked.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hyperleaf.bench.methods import Method
from hyperleaf.bench.tasks import Realisation, Task, task
from hyperleaf.errors import HyperleafError, InputError
from hyperleaf.storage import NewQuery, State, Storage, StudyExistsError, StudyNotFoundError, open_storage

SCORES, ABOUT, WORKER = "scores", "run", "worker"  # artifacts of a run's study
SNAPSHOTS = (10, 60)  # queries after which the surrogate is kept, for the paper's maps; and after the last
KEEP_SEED = 0  # of which seed
CRPS_EVERY = 10  # queries; it takes longer than a query does


class BusyError(HyperleafError, RuntimeError):
    """Another process is at this run."""


@dataclass(frozen=True)
class Run:
    """One method on one task with one seed; `queries` None means those of the task."""

    task: str
    path: str | None
    method: Method
    seed: int
    queries: int | None = None

    @property
    def study(self) -> str:
        """The name of its study."""
        return f"{self.task}/{self.method.name}/{self.seed}"

    @property
    def ends(self) -> tuple[int, int]:
        """The numbers of observations it begins and ends with."""
        problem = the_task(self.task, self.path)
        static = problem.num_queries == 0  # then there is nothing to ask, however many queries other tasks are given
        return problem.num_first, problem.num_first + (problem.num_queries if static or self.queries is None else self.queries)


@lru_cache(maxsize=32)
def the_task(name: str, path: str | None) -> Task:
    """`task`, once in a process: some read a table, the others measure their own spread."""
    return task(name, path)


def do_run(run: Run, url: str | Storage, folder: str | None = None, on_step: Callable[[int, int], None] | None = None) -> str:
    """Carry a run to its end, from wherever it stands; the name of its study. Can be called in any process."""
    from hyperleaf.study.owners import beating

    storage = open_storage(url)
    try:
        world = the_task(run.task, run.path).realise(run.seed)
        study = _study(storage, run, world, folder)
        _take(storage, run)
        try:
            with beating(lambda: _beat(storage, run)):
                _go_on(study, storage, run, world, on_step)
        finally:
            storage.put_artifact(run.study, WORKER, b"{}")
    finally:
        if isinstance(url, str):
            storage.close()
    return run.study


def _go_on(study: Any, storage: Storage, run: Run, world: Realisation, on_step: Callable[[int, int], None] | None) -> None:
    first, last = run.ends
    scores = read_scores(storage, run.study)
    warm = not scores  # a study that is taken up again learns everything anew at first: that is no time of a query
    while True:
        record = study.record()
        num = len(record.observations)
        if str(num) not in scores:
            before = dict(study.seconds)
            model = study.models["y"]
            found = score(model, world, crps=(num - first) % CRPS_EVERY == 0)
            scores[str(num)] = {**found, "seconds": _spent(study, before) if warm else math.nan}
            warm = True
            if run.seed == KEEP_SEED and (num - first in SNAPSHOTS or num == last):
                _keep_snapshot(storage, run, study, num)
            storage.put_artifact(run.study, SCORES, json.dumps(scores).encode())
        if on_step is not None:
            on_step(num - first, last - first)
        if num >= last:
            break
        before = dict(study.seconds)
        asked = [query for query in record.queries if query.state in (State.WAITING, State.RUNNING)]
        if asked:  # by a process that was killed before it answered
            query = asked[0]
        else:
            (query,) = study.ask()
            if warm:
                scores[str(num)]["seconds"] += _spent(study, before)
            warm = True
        if query.index is None:
            raise HyperleafError(f"the study {run.study!r} asked for a point that is no row of its pool.")
        study.tell(query, y=world.output(query.index))
    study.save()


def _study(storage: Storage, run: Run, world: Realisation, folder: str | None) -> Any:
    """The study of a run, made if it is not there; it has its pool, and all its first points are told, or none."""
    from hyperleaf.study import Study

    first, last = run.ends
    if len(world.pool) < last:
        raise InputError(
            f"the pool of the task {run.task!r} has {len(world.pool)} candidates, too few for {first} first points and "
            f"{last - first} queries. Ask for at most {len(world.pool) - first} queries."
        )
    try:
        record = storage.read(run.study)
    except StudyNotFoundError:
        with suppress(StudyExistsError):  # another process was quicker
            Study.create(
                run.study,
                world.pool.domain,
                "y",
                storage=storage,
                seed=run.seed,
                surrogate=run.method.surrogate,
                acquisition=run.method.acquisition,
                design={"size": first},
                pool=world.pool,
            )
        record = storage.read(run.study)
    about = {**_about(run, world), "queries": last - first}
    kept = read_about(storage, run.study)
    if record.queries:
        changed = [key for key, value in _about(run, world).items() if kept.get(key) != value]
        if changed:
            raise InputError(
                f"the store holds a run {run.study!r} with another {changed[0]}, and its results are not those of this one. "
                "Give the method another name, or use another store."
            )
    if not record.queries or kept.get("queries", 0) < last - first:
        # before the first points, so that a study with queries is whole
        storage.put_artifact(run.study, ABOUT, json.dumps({**about, "path": run.path, "title": run.method.title}).encode())
    if not record.queries:
        new = [
            NewQuery(world.pool.points(int(row))[0], "design", index=int(row), outputs={"y": world.output(int(row))})
            for row in world.first
        ]
        storage.append(run.study, new, version=record.version, now=time.time())
    return Study(storage, run.study, folder or ".")


def _about(run: Run, world: Realisation) -> dict[str, Any]:
    """What makes a run the run that it is; what JSON makes of it, so that it can be compared with what was kept."""
    own = {
        "task": run.task,
        "method": run.method.name,
        "seed": run.seed,
        "surrogate": dict(run.method.surrogate),
        "acquisition": run.method.acquisition,
        "world": _fingerprint(world),
    }
    return json.loads(json.dumps(own))


def _fingerprint(world: Realisation) -> str:
    """Of the pool, its outputs, the first points and the test set."""
    digest = hashlib.sha256()
    for array in (world.pool.unit, world.outputs, world.first, world.test_unit, world.test_y):
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def _take(storage: Storage, run: Run) -> None:
    """Note that this process is at the run; refused while another one is."""
    from hyperleaf.study.owners import is_gone, this_process

    payload = storage.artifact(run.study, WORKER)
    held = {} if payload is None else json.loads(payload.decode())
    if held and held["owner"] != this_process() and not is_gone(held["owner"], held["at"], time.time()):
        raise BusyError(f"another process is at {run.study!r} ({held['owner']}). Let it finish, or stop it first.")
    _beat(storage, run)


def _beat(storage: Storage, run: Run) -> None:
    from hyperleaf.study.owners import this_process

    storage.put_artifact(run.study, WORKER, json.dumps({"owner": this_process(), "at": time.time()}).encode())


def score(model: Any, world: Realisation, *, crps: bool = True) -> dict[str, float]:
    """A surrogate on the test set of a realisation, in the units of the outputs."""
    from hyperleaf.bench.statistics import scores

    predicted = model.predict(world.test_unit)
    found = scores(predicted.noisy() if world.test_noisy else predicted, world.test_y, crps=crps)
    return {name: float(value) for name, value in found._asdict().items()}


def _spent(study: Any, before: Mapping[str, float]) -> float:
    return sum(study.seconds[name] - before[name] for name in ("learning", "choosing"))


def _keep_snapshot(storage: Storage, run: Run, study: Any, num: int) -> None:
    """The surrogate as a file would hold it, under model-N."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        storage.put_artifact(run.study, f"model-{num}", study.save_model(Path(folder) / "model.npz").read_bytes())


def read_snapshot(storage: Storage, study: str, num: int) -> Any:
    """The surrogate (a `Model`) as it was at so many observations; None if it was not kept."""
    from tempfile import TemporaryDirectory

    from hyperleaf.study import load_model

    payload = storage.artifact(study, f"model-{num}")
    if payload is None:
        return None
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.npz"
        path.write_bytes(payload)
        return load_model(path)


def read_scores(storage: Storage, study: str) -> dict[str, dict[str, float]]:
    """What was measured, by the number of observations."""
    payload = storage.artifact(study, SCORES)
    return {} if payload is None else json.loads(payload.decode())


def read_about(storage: Storage, study: str) -> dict[str, Any]:
    """What the run of a study is; empty for a study that is no run of a campaign."""
    payload = storage.artifact(study, ABOUT)
    return {} if payload is None else json.loads(payload.decode())
