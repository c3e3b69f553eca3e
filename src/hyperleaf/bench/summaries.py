"""Tables of a campaign's results: who is better, by how much, how surely, and what it cost.

All take a tidy DataFrame with one row per (method, task, seed, n) and the columns of `COLUMNS`, where n is the number of
observations and `seconds` the time that the step to n took; the seeds of two methods are pairs, because both met the same world
(`tasks.Realisation`). What an area is, is said in `statistics`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from hyperleaf.bench.statistics import (
    Alternative,
    bootstrap_ratio,
    censored_quantile,
    holm,
    log_rmse_area,
    paired_wilcoxon,
    queries_to_reach,
    smallest_p,
)
from hyperleaf.errors import DataError, InputError

KEYS = ("method", "task", "seed", "n")
SCORES = ("rmse", "nlpd", "crps", "coverage", "seconds")
COLUMNS = KEYS + SCORES


def check(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame sorted by task, method, seed and n, if it is tidy: all columns there, and no (method, task, seed, n) twice."""
    missing = [name for name in COLUMNS if name not in frame.columns]
    if missing:
        raise DataError(f"results must have the columns {list(COLUMNS)}; {missing} missing. Fill what is unknown with NaN.")
    if frame[list(KEYS)].isna().any(axis=None):
        raise DataError(f"every result must have a {', a '.join(KEYS)}; some are missing. Drop those rows.")
    twice = frame[frame.duplicated(list(KEYS))]
    if len(twice):
        raise DataError(f"a run has one result per n; got {dict(twice.iloc[0][list(KEYS)])} twice. Drop the second.")
    return frame.sort_values(["task", "method", "seed", "n"], kind="stable").reset_index(drop=True)


def runs(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per run (task, method, seed): `area`, the last scores, `seconds` per query, and whether it is `complete`.

    Complete is a run whose RMSEs are finite and > 0 and go from the first to the last n of its task. Only these have an area, so
    that areas are over the same range, and a run that was stopped halfway is not judged by its first half. A static design has
    one n, and its area is ln RMSE there.
    """
    frame = check(frame)
    ends = frame.groupby("task")["n"].agg(["min", "max"])
    rows = []
    for (task, method, seed), run in frame.groupby(["task", "method", "seed"], sort=False):
        good = bool(np.isfinite(run["rmse"]).all() and (run["rmse"] > 0).all())
        complete = good and bool((run["n"].iloc[[0, -1]].to_numpy() == ends.loc[task].to_numpy()).all())
        last = run.iloc[-1]
        area = np.nan if not complete else log_rmse_area(run["n"], run["rmse"]) if len(run) > 1 else float(np.log(last["rmse"]))
        row = {"task": task, "method": method, "seed": seed, "complete": complete, "area": area}
        rows.append(row | {name: last[name] for name in SCORES[:-1]} | {"seconds": run["seconds"].mean()})
    return pd.DataFrame(rows, columns=["task", "method", "seed", "complete", "area", *SCORES])


def quartiles(frame: pd.DataFrame, value: str = "rmse") -> pd.DataFrame:
    """task, method, n, num_seeds, low, median, high: the quartiles of `value` over seeds at each n; NaNs are left out."""
    groups = check(frame).groupby(["task", "method", "n"], sort=False)[value]
    table = groups.quantile([0.25, 0.5, 0.75]).unstack()
    table.columns = pd.Index(["low", "median", "high"])
    table.insert(0, "num_seeds", groups.count())
    return table.reset_index()


def rankings(frame: pd.DataFrame) -> pd.DataFrame:
    """Per task and method over complete runs, the best first: mean rank of the area among the methods (over the seeds that all
    of them completed), `mean_rmse` = exp(median area), medians of the final scores and of the seconds per query."""
    table = runs(frame)
    done = table[table["complete"].astype(bool)]
    parts = []
    for task, group in done.groupby("task", sort=False):
        ranks = group.pivot(index="seed", columns="method", values="area").dropna().rank(axis=1)
        part = group.groupby("method", sort=False)[["area", *SCORES]].median()
        part.insert(0, "rank", ranks.mean().reindex(part.index))
        part.insert(0, "num_seeds", group.groupby("method", sort=False).size())
        part.insert(2, "mean_rmse", np.exp(part.pop("area")))
        part.insert(0, "task", task)
        parts.append(part.sort_values(["rank", "mean_rmse"], kind="stable").reset_index())
    columns = ["task", "method", "num_seeds", "rank", "mean_rmse", *SCORES]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def compare(
    frame: pd.DataFrame,
    against: str,
    *,
    alternative: Alternative = "two-sided",
    family: Literal["task", "all"] = "task",
    probability: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Each method's area against that of the method `against`, paired by seed: a row per task and method.

    `ratio` = exp(mean of A_method − A_against) with the interval `low` … `high`: above 1 the chosen method is the better, and
    `wins` is the share of pairs in which it is. `p` is the signed-rank test of the areas, `p_holm` is adjusted for all methods of
    the task, or for the whole table; the alternative "greater" asks only whether the chosen method is the better. `smallest_p`
    is what so few pairs could show at best, before adjustment, and `left_out` counts pairs without two complete runs.
    """
    table = runs(frame)
    if against not in set(table["method"]):
        raise InputError(f"methods are compared against one of {sorted(set(table['method']))}; got {against!r}.")
    rows = []
    for task, group in table.groupby("task", sort=False):
        areas = group.pivot(index="seed", columns="method", values="area")
        for method in areas.columns.drop(against, errors="ignore") if against in areas else []:
            started = int(group.loc[group["method"].isin([method, against]), "seed"].nunique())
            pairs = areas[[method, against]].dropna()
            a, b = pairs[method].to_numpy(), pairs[against].to_numpy()
            row = {"task": task, "method": method, "num_pairs": len(pairs), "left_out": started - len(pairs)}
            if len(pairs):
                # relative to the pair's own level, so that exp cannot overflow
                ratio = bootstrap_ratio(np.exp(a - b), np.ones(len(a)), probability=probability, seed=seed)
                row |= {**ratio._asdict(), "wins": float(np.mean(a > b)), "p": paired_wilcoxon(a, b, alternative)}
                row["smallest_p"] = smallest_p(len(pairs), alternative)
            rows.append(row)
    columns = ["task", "method", "num_pairs", "left_out", "ratio", "low", "high", "wins", "p", "p_holm", "smallest_p"]
    result = pd.DataFrame(rows, columns=columns)
    return _with_holm(result, [] if family == "all" else ["task"])


def significance(
    frame: pd.DataFrame, method: str, *, value: str = "rmse", alternative: Alternative = "less", level: float = 0.05
) -> pd.DataFrame:
    """task, method, n, num_pairs, p, p_holm, significant: at each n, whether `method` has a smaller `value` than each rival.

    One signed-rank test per rival and n, adjusted over the rivals at that n; `significant`, p_holm < level, is where a figure has
    a cross. Neighbouring n are far from independent: the crosses are a picture, the areas of `compare` are the test.
    """
    frame = check(frame)
    if method not in set(frame["method"]):
        raise InputError(f"a method must be one of {sorted(set(frame['method']))}; got {method!r}.")
    rows = []
    for (task, n), group in frame.groupby(["task", "n"], sort=False):
        wide = group.pivot(index="seed", columns="method", values=value)
        for rival in wide.columns.drop(method, errors="ignore") if method in wide else []:
            pairs = wide[[method, rival]].dropna()
            p = paired_wilcoxon(pairs[method], pairs[rival], alternative) if len(pairs) else np.nan
            rows.append({"task": task, "method": rival, "n": n, "num_pairs": len(pairs), "p": p})
    result = _with_holm(pd.DataFrame(rows, columns=["task", "method", "n", "num_pairs", "p", "p_holm"]), ["task", "n"])
    result["significant"] = result["p_holm"] < level
    return result.sort_values(["task", "method", "n"], kind="stable").reset_index(drop=True)


def reach_table(frame: pd.DataFrame, targets: float | Mapping[str, float], *, lasting: bool = False) -> pd.DataFrame:
    """task, method, target, num_seeds, reached (share), low, median, high: queries to reach a target RMSE.

    The target is one for all tasks or a mapping by task; tasks without one are left out. Quartiles are those of Kaplan and Meier
    over seeds, infinite where too few runs got there.
    """
    rows = []
    for (task, method), group in check(frame).groupby(["task", "method"], sort=False):
        target = targets.get(str(task)) if isinstance(targets, Mapping) else targets
        if target is None:
            continue
        found = [queries_to_reach(run["n"], run["rmse"], target, lasting=lasting) for _, run in group.groupby("seed")]
        row = {"task": task, "method": method, "target": target, "num_seeds": len(found)}
        row["reached"] = float(np.mean([reach.reached for reach in found]))
        rows.append(row | {name: censored_quantile(found, q) for name, q in (("low", 0.25), ("median", 0.5), ("high", 0.75))})
    return pd.DataFrame(rows, columns=["task", "method", "target", "num_seeds", "reached", "low", "median", "high"])


# --- for readers -------------------------------------------------------------------------------------------------------------


def to_markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """A table in Markdown, floats to so many significant digits, numbers to the right, what is missing empty."""

    def cell(value: Any) -> str:
        if isinstance(value, float | np.floating):
            return "" if np.isnan(value) else f"{value:.{digits}g}"
        return "" if value is None or value is pd.NA else str(value).replace("|", "\\|").replace("\n", " ")

    is_number, is_bool = pd.api.types.is_numeric_dtype, pd.api.types.is_bool_dtype
    rules = ["---:" if is_number(kind) and not is_bool(kind) else "---" for kind in table.dtypes]
    lines = [[cell(str(name)) for name in table.columns], rules]
    lines += [[cell(value) for value in row] for row in table.itertuples(index=False, name=None)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_tables(folder: str | os.PathLike[str], named: Mapping[str, pd.DataFrame], digits: int = 3) -> list[Path]:
    """Each table as `name.csv`, in full precision, and `name.md`, rounded; returns the files written."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in named.items():
        for suffix, text in ((".csv", table.to_csv(index=False, lineterminator="\n")), (".md", to_markdown(table, digits))):
            written.append(folder / f"{name}{suffix}")
            written[-1].write_text(text, encoding="utf-8", newline="\n")
    return written


def _with_holm(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The table with `p_holm` adjusted within each group of rows that are alike in `by`."""
    table["p_holm"] = np.nan
    table["p"] = table["p"].astype(np.float64)
    for rows in table.groupby(by).indices.values() if by and len(table) else [np.arange(len(table))]:
        table.loc[table.index[rows], "p_holm"] = holm(table["p"].to_numpy()[rows])
    return table
