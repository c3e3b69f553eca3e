"""Writes a golden store: `make_store.py FILE`. Run once by the version that brings a new schema; the file is kept for good."""

import sys
from pathlib import Path

from hyperleaf.storage import Amendment, Kind, NewQuery, open_storage

if __name__ == "__main__":
    store = open_storage(f"sqlite:///{Path(sys.argv[1]).resolve()}")
    definition = {
        "study": {"name": "Kühlung 1", "seed": 1},
        "inputs": {"mach": {"low": 0.2, "high": 6.0}},
        "outputs": {"lift": {}},
    }
    store.create_study("Kühlung 1", definition, now=1731234567.25)
    store.create_study("empty", {}, now=1731234568.0)
    points = [NewQuery({"mach": 0.1 + 0.2}, "design", note="first"), NewQuery({"mach": 1 / 3}, "design", owner="bench-1")]
    store.append("Kühlung 1", points, version=None, now=1731234570.0)
    store.append("Kühlung 1", [NewQuery({"mach": 2.5}, "added", outputs={"lift": 5e-324})], version=None, now=1731234571.0)
    store.tell("Kühlung 1", 1, {"lift": -0.1}, now=1731234580.0, seconds=9.5)
    chosen = NewQuery({"mach": 4.0}, "acquisition", index=17, score=-1.25, owner="bench-2")
    store.append("Kühlung 1", [chosen, chosen], version=None, absorbed=[1, 3], now=1731234590.0)
    store.release("Kühlung 1", 4, "bench-2", note="mesh", next_attempt=True)
    store.tell_failed("Kühlung 1", 5, "no convergence", now=1731234600.0, seconds=3.0)
    store.amend("Kühlung 1", [Amendment(3, Kind.VOIDED)], who="ann", why="sensor off", now=1731234610.0)
    right = Amendment(1, Kind.CORRECTED, {"lift": 0.1}, {"mach": 0.31})
    store.amend("Kühlung 1", [right], who="bob", now=1731234620.0)
    store.put_metrics("Kühlung 1", 2, {"rmse": 0.25, "coverage": {"95": 0.9}})
    store.put_artifact("Kühlung 1", "posterior", bytes(range(256)))
    store.close()
