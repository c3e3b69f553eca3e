"""Turns the store of a campaign into a page, docs/results.md, with tables in docs/results/*.csv and figures beside them:

    python docs/make_results.py sqlite:///bench.db [--against hhk] [--cross hhk,stationary] [--path engine-hc=FILE]

`--page results-criteria --title "Which criterion"` names another page, and `--tasks`, `--methods` and `--seeds` take a part of
what the store holds: so one store gives a page on each question. What stands between the lines `<!-- words -->` and
`<!-- /words -->` of a page is written by hand and is kept.
"""

from __future__ import annotations

import argparse
import platform
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from make_figures import save

DOCS = Path(__file__).resolve().parent
START, END = "<!-- words -->", "<!-- /words -->"
NOTHING = "\n(What the results mean is to be written here by hand.)\n"


def main(arguments: list[str] | None = None, docs: Path = DOCS) -> None:
    from hyperleaf.bench.campaign import absolute_url, stored_campaign
    from hyperleaf.bench.outcomes import results
    from hyperleaf.bench.report import all_figures, write_bench_report
    from hyperleaf.storage import open_storage

    parser = argparse.ArgumentParser(description="A store of a campaign as a page of the documentation.")
    parser.add_argument("store", help="its address, sqlite:///bench.db")
    parser.add_argument("--against", default=None, help="the method that others are held against; hhk if it is there")
    parser.add_argument("--cross", default="", help="models to fit to the points of all methods, separated by commas")
    parser.add_argument("--path", action="append", default=[], metavar="TASK=FILE")
    parser.add_argument("--page", default="results", help="its name, and that of the folder with its tables and figures")
    parser.add_argument("--title", default="Results")
    parser.add_argument("--tasks", default="", help="these only, separated by commas")
    parser.add_argument("--methods", default="", help="these only, in this order")
    parser.add_argument("--seeds", type=int, help="the first so many only")
    chosen = parser.parse_args(arguments)
    storage = open_storage(absolute_url(chosen.store), create=False)
    campaign = stored_campaign(storage, dict(one.split("=", 1) for one in chosen.path))
    if chosen.tasks:
        campaign = replace(campaign, tasks=tuple(chosen.tasks.split(",")))
    if chosen.methods:
        known = {one.name: one for one in campaign.methods}
        campaign = replace(campaign, methods=tuple(known[name] for name in chosen.methods.split(",")))
    if chosen.seeds:
        campaign = replace(campaign, seeds=campaign.seeds[: chosen.seeds])
    names = [one.name for one in campaign.methods]
    against = chosen.against or ("hhk" if "hhk" in names else names[0])
    folder = docs / chosen.page
    cross = [name for name in chosen.cross.split(",") if name]
    write_bench_report(campaign, storage, folder, against=against, cross=cross, formats=(), page=False)
    frame = results(campaign, storage)
    import pandas as pd

    from hyperleaf.plots.sheet import draw

    effect = pd.read_csv(folder / "effects.csv") if cross else None
    pictures = []
    for one in all_figures(campaign, storage, frame, against, effect):
        save(draw(one.sheet, "matplotlib"), folder / f"{one.name}.png")
        pictures.append(f"## {one.title}\n\n{one.caption}\n\n![{one.title}]({folder.name}/{one.name}.png)\n")
    page = docs / f"{chosen.page}.md"
    text = _page(chosen.title, campaign, frame, against, folder, pictures, _words(page))
    page.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{page}\n")


def _words(page: Path) -> str:
    """What was written by hand before."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return text.split(START, 1)[1].split(END, 1)[0] if START in text and END in text else NOTHING


def _page(title, campaign, frame, against, folder, pictures, words) -> str:
    import pandas as pd

    import hyperleaf
    from hyperleaf.bench.report import TABLE_WORDS
    from hyperleaf.bench.runs import the_task
    from hyperleaf.simulators.durations import format_duration

    titles = {one.name: one.title for one in campaign.methods}
    last = frame.groupby("task")["n"].agg(["min", "max"])
    tasks = [
        f"- {the_task(name, campaign.paths.get(name)).title} (`{name}`): {last.loc[name, 'min']} first points, "
        f"{last.loc[name, 'max'] - last.loc[name, 'min']} queries"
        for name in campaign.tasks
        if name in last.index
    ]
    spent = frame.groupby("method")["seconds"].sum()
    times = "; ".join(f"{titles[name]} {format_duration(float(spent[name]))}" for name in titles if name in spent.index)
    seeds = frame.groupby("task")["seed"].nunique()
    parts = [
        f"# {title}\n",
        "What `hyperleaf bench` found; [how it is run and what the statistics mean](bench.md). All numbers are in "
        f"[{folder.name}/]({folder.name}/), the scores of every step in [results.csv]({folder.name}/results.csv).\n",
        f"{START}{words}{END}\n",
        "## What was run\n\n"
        + "\n".join(tasks)
        + f"\n\nSeeds per task: {', '.join(f'{name} {count}' for name, count in seeds.items())}. "
        + f"Methods: {'; '.join(f'{title} (`{name}`)' for name, title in titles.items())}.\n\n"
        + f"Learning and choosing took {format_duration(float(spent.sum()))} in all ({times}), with compilation; "
        + "scoring is not counted. "
        + f"hyperleaf {hyperleaf.__version__}, Python {platform.python_version()}, {platform.machine()}.\n",
    ]
    if (folder / "comparison.csv").is_file():
        table = pd.read_csv(folder / "comparison.csv")
        lost = table[(table["ratio"] < 1.0)]
        said = "; ".join(
            f"{titles[row.method]} on {row.task} (ratio {row.ratio:.3g}, p = {row.p_holm:.2g})" for row in lost.itertuples()
        )
        parts.append(f"## Where {titles[against]} loses\n\n{said or 'Nowhere, by the area under the log-RMSE curve'}.\n")
    for name, words_ in TABLE_WORDS.items():
        if (folder / f"{name}.md").is_file():
            table = (folder / f"{name}.md").read_text(encoding="utf-8")
            parts.append(f"## {name.replace('-', ' ').capitalize()}\n\n{words_}\n\n{table}")
    return "\n".join([*parts, *pictures])


if __name__ == "__main__":
    main()
