# %% [markdown]
# # Real engine data
#
# 795 steady-state measurements of a gasoline engine (engine 1 of the public Bosch-Engine-Datasets, CC BY-SA 4.0). We pretend that
# they are not measured yet: a study chooses, out of 600 of them, the ones it wants to see; its error is measured on the others.
#
#     python engine.py [FOLDER] [--queries 60] [--surrogate hhk] [--out engine.html]
#
# FOLDER holds engine1.csv; without it, data/pengines is looked for in HYPERLEAF_SHARED and in ../shared beside the project.

# %%
from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import hyperleaf as hl

INPUTS = ["engine_speed", "engine_load", "intake_valve_opening", "air_fuel_ratio"]
OUTPUT = "temperature_exhaust_manifold"

# %%
parser = argparse.ArgumentParser()
parser.add_argument("folder", nargs="?", type=Path)
parser.add_argument("--queries", type=int, default=60)
parser.add_argument("--surrogate", default="hhk")
parser.add_argument("--out", type=Path)
options = parser.parse_args()

shared = os.environ.get("HYPERLEAF_SHARED") or Path(__file__).resolve().parents[3] / "shared"
folder = options.folder or Path(shared) / "data" / "pengines"
if not (folder / "engine1.csv").is_file():
    sys.stdout.write(f"skipped: there is no engine1.csv in {folder}; give its folder as an argument.\n")
    sys.exit(0)

# %% [markdown]
# The domain is the box around what was measured. The candidates are a pool, so that only rows of the table are asked.

# %%
table = pd.read_csv(folder / "engine1.csv")
domain = hl.Domain({name: hl.Real(float(table[name].min()), float(table[name].max())) for name in INPUTS})
order = np.random.default_rng(0).permutation(len(table))
runs, unseen = table.iloc[order[:600]].reset_index(drop=True), table.iloc[order[600:]]

study = hl.Study.create(
    "engine",
    domain,
    OUTPUT,
    surrogate=options.surrogate,
    design=min(20, options.queries),
    pool=runs[INPUTS],
    test=unseen[[*INPUTS, OUTPUT]],
)

# %%
stopped = study.run({"table": runs}, queries=options.queries, progress=sys.stdout.isatty())
accuracy = study.accuracy()[OUTPUT]
sys.stdout.write(f"{stopped.reason}\n")
sys.stdout.write(
    f"{stopped.num_done} of {len(runs)} rows: error {accuracy.test_rmse:.3f} on {len(unseen)} unseen ones "
    f"(the surrogate itself expects {accuracy.trusted_rmse:.3f}); {accuracy.test_coverage:.0%} lie in their 90 % interval\n"
)

# %% [markdown]
# How the error fell, and the page with slices, maps and the table of runs.

# %%
history = study.metrics()[["num_observations", "expected_rmse", "loo_rmse", "test_rmse"]]
sys.stdout.write(history.iloc[:: max(len(history) // 10, 1)].round(3).to_string(index=False) + "\n")
if options.out is not None:
    sys.stdout.write(f"{study.report(options.out)}\n")
