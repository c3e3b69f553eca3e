"""What a campaign gave, out of its store: scores, chosen points, and the effects of model and design apart."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hyperleaf.bench.methods import Method, method
from hyperleaf.bench.runs import Run, read_scores, score, the_task
from hyperleaf.errors import InputError
from hyperleaf.storage import Storage

if TYPE_CHECKING:
    from hyperleaf.bench.campaign import Campaign

CROSS = "cross-scores"  # an artifact: refits cost as much as the campaign, so they are kept


def results(campaign: Campaign, storage: Storage) -> Any:
    """All scores as a tidy DataFrame: method, task, seed, n, rmse, nlpd, crps, coverage, seconds."""
    import pandas as pd

    from hyperleaf.bench.summaries import COLUMNS

    rows = []
    for run in _begun(campaign, storage):
        last = run.ends[1]
        for n, values in read_scores(storage, run.study).items():
            if int(n) <= last:
                rows.append({"method": run.method.name, "task": run.task, "seed": run.seed, "n": int(n), **values})
    return pd.DataFrame(rows, columns=list(COLUMNS)).sort_values(["task", "method", "seed", "n"], ignore_index=True)


def designs(campaign: Campaign, storage: Storage) -> Any:
    """All observed points as a tidy DataFrame: method, task, seed, n (observations before it), index (row of the pool), y."""
    import pandas as pd

    rows = []
    for run in _begun(campaign, storage):
        record = storage.read(run.study)
        told = {one.query_id: one.outputs["y"] for one in record.observations}
        own = {"method": run.method.name, "task": run.task, "seed": run.seed}
        done = [query for query in record.queries if query.id in told][: run.ends[1]]
        rows += [{**own, "n": n, "index": query.index, "y": told[query.id]} for n, query in enumerate(done)]
    return pd.DataFrame(rows, columns=["method", "task", "seed", "n", "index", "y"])


def cross_scores(
    campaign: Campaign,
    storage: Storage,
    models: Sequence[str | Method],
    at: Sequence[int],
    progress: Callable[[int, int, str], None] | None = None,
) -> Any:
    """Model effect and design effect apart: every model in `models` fitted to the first n points that every method chose.

    Columns model, design, task, seed, n and the scores. Fits are from scratch, so a model on its own design is fitted anew too:
    the diagonal differs from `results` by what a model carries along. Each fit is kept in the store once it is made. `progress`
    is told how many of all are done, and which is next.
    """
    import pandas as pd

    own = {one.name: one for one in campaign.methods}
    fitted = [one if isinstance(one, Method) else own.get(one) or method(one) for one in models]
    if not fitted or any(isinstance(n, bool) or n < 2 for n in at):
        raise InputError(f"cross scores need models, and numbers of points ≥ 2; got {list(models)} and {list(at)}.")
    chosen = designs(campaign, storage)
    points = {(task, name, seed): group for (task, name, seed), group in chosen.groupby(["task", "method", "seed"], sort=False)}
    jobs = [(run, model, n) for run in _begun(campaign, storage) for n in at for model in fitted]
    jobs = [(run, model, n) for run, model, n in jobs if n <= len(points.get((run.task, run.method.name, run.seed), ()))]
    rows = []
    for done, (run, model, n) in enumerate(jobs):
        if progress is not None:
            progress(done, len(jobs), f"{model.name} on {n} points of {run.study}")
        order = points[run.task, run.method.name, run.seed].sort_values("n")["index"].to_numpy(dtype=int)[:n]
        found = _refit(storage, run, model, n, order)
        rows.append({"model": model.name, "design": run.method.name, "task": run.task, "seed": run.seed, "n": n, **found})
    columns = ["model", "design", "task", "seed", "n", "rmse", "nlpd", "crps", "coverage"]
    return pd.DataFrame(rows, columns=columns)


def _refit(storage: Storage, run: Run, model: Method, n: int, order: Any) -> dict[str, float]:
    import jax
    import numpy as np

    from hyperleaf.surrogates.learned import Learned
    from hyperleaf.surrogates.named import make_surrogate

    text = json.dumps([dict(model.surrogate), n, [int(row) for row in order]], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    payload = storage.artifact(run.study, CROSS)
    kept = {} if payload is None else json.loads(payload.decode())
    if key not in kept:
        problem = the_task(run.task, run.path)
        world = problem.realise(run.seed)
        options = dict(model.surrogate)
        surrogate = make_surrogate(options.pop("kind"), problem.domain.widths, **options)
        chance = jax.random.fold_in(jax.random.key(run.seed), n)
        learned = Learned.fit(surrogate, world.pool.unit[order], np.asarray(world.outputs)[order], key=chance)
        kept[key] = score(learned, world)
        storage.put_artifact(run.study, CROSS, json.dumps(kept).encode())
    return kept[key]


def effects(cross: Any, against: str) -> Any:
    """From cross scores, how many times larger the RMSE of each rival is than that of `against`, and why: task, method, n,
    num_seeds, `model` (both on the points of `against`), `design` (the model of `against` on both designs), `both`.

    Ratios are geometric means over seeds; above 1 speaks for `against`. model × design is about both where the two do not
    depend on each other.
    """
    import numpy as np
    import pandas as pd

    rows = []
    for (task, n), group in cross.groupby(["task", "n"], sort=False):
        wide = group.pivot(index="seed", columns=["model", "design"], values="rmse")
        if (against, against) not in wide:
            continue
        base = np.log(wide[against, against])
        for rival in dict.fromkeys(group["design"]):
            if rival == against or (against, rival) not in wide:
                continue
            design = np.log(wide[against, rival]) - base
            model = np.log(wide[rival, against]) - base if (rival, against) in wide else design * np.nan
            both = np.log(wide[rival, rival]) - base if (rival, rival) in wide else design * np.nan
            own = {"task": task, "method": rival, "n": n, "num_seeds": int(design.notna().sum())}
            values = {"model": model, "design": design, "both": both}
            rows.append({**own, **{name: float(np.exp(part.mean())) for name, part in values.items()}})
    return pd.DataFrame(rows, columns=["task", "method", "n", "num_seeds", "model", "design", "both"])


def _begun(campaign: Campaign, storage: Storage) -> list[Run]:
    names = set(storage.study_names())
    return [run for run in campaign.runs() if run.study in names]
