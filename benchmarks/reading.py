"""CPU that a query costs beside learning and choosing: a study on SQLite with n finished runs and nothing to learn, all design.

The loop asks, a function answers at once, the loop tells, and every event is reported: what is left is reading and writing the
record. It should not grow with n by much: below 30 ms at n = 3000. Usage: python -m benchmarks.reading [--sizes 100 1000 3000]
"""

import argparse
import json
import sqlite3
import tempfile
import time
from pathlib import Path

from hyperleaf.domain import Domain, Real
from hyperleaf.storage.base import NewQuery
from hyperleaf.study import Accuracy, Study

DOMAIN = Domain(a=Real(0, 1), b=Real(-1, 1))


def measure(n: int, queries: int, url: str) -> float:
    """Seconds of CPU a query."""
    study = Study.create("reading", DOMAIN, "y", storage=url, design=n + 2 * queries)
    study._insight.can_learn = lambda record: False  # type: ignore[method-assign]  # or a run would learn at its end
    new = [NewQuery(point, "design", outputs={"y": point["a"]}) for point in DOMAIN.design(n, "uniform", 1)]
    study.storage.append(study.name, new, version=None, now=time.time())
    figures = {"y": dict.fromkeys(Accuracy.__dataclass_fields__, 0.1)}
    with sqlite3.connect(url.removeprefix("sqlite:///")) as file:  # as if accuracy had been measured after every run
        file.executemany("INSERT INTO hyperleaf_metrics VALUES (1, ?, ?)", [(i, json.dumps(figures)) for i in range(1, n)])
    study.run(lambda a, b: a, queries=queries)  # opens, warms up
    started = time.process_time()
    study.run(lambda a, b: a, queries=queries, progress=lambda event: None)
    return (time.process_time() - started) / queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 3000])
    parser.add_argument("--queries", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for n in options.sizes:
            spent = measure(n, options.queries, f"sqlite:///{Path(folder) / f'{n}.db'}")
            print(f"n = {n:5d}: {1e3 * spent:7.1f} ms of CPU a query", flush=True)


if __name__ == "__main__":
    main()
