"""What a campaign costs beside inference: a study of Exponential 2-D on SQLite, 8 leaves, a pool of 1000, 5 → 65 runs.

Inference is learning (the surrogate) and choosing (prediction on the pool, entropy, argmax). The rest is measuring accuracy after
every run, storing, and the loop itself; it should stay below a tenth. Usage: python -m benchmarks.loop [--queries 60]
"""

import argparse
import tempfile
from pathlib import Path

from hyperleaf.bench.tasks import task
from hyperleaf.compilation import enable_compilation_cache
from hyperleaf.study import Study


def measure(queries: int, storage: str) -> dict[str, float]:
    world = task("exponential").realise(0)
    study = Study.create("loop", world.pool.domain, "y", storage=storage, pool=world.pool)
    table = [{**point, "y": float(y)} for point, y in zip(world.pool.points(range(len(world.pool))), world.outputs, strict=True)]
    return dict(study.run({"table": table}, queries=queries + 5).seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=60)
    options = parser.parse_args()
    enable_compilation_cache()
    with tempfile.TemporaryDirectory() as folder:
        measure(options.queries, "memory://")  # compiles
        spent = measure(options.queries, f"sqlite:///{Path(folder) / 'loop.db'}")
    inference = spent["learning"] + spent["choosing"]
    rest = spent["all"] - inference - spent["simulating"]
    print("  ".join(f"{name} {seconds:.2f} s" for name, seconds in spent.items()))
    print(f"beside inference {rest:.2f} s, {rest / inference:.1%} of it; inference {inference / options.queries:.2f} s a query")


if __name__ == "__main__":
    main()
