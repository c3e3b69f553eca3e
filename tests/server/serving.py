"""A server in a process of its own, to be killed; and a worker in another, that goes on. Started by the tests, by path."""

import json
import sys
import time

from hyperleaf.server.client import connect


def worker(url: str, owner: str, wanted: int) -> None:
    """Ask and tell until the study has as many runs as are wanted; every answer that was said to be kept goes to stdout."""
    study = connect(url, patience="5m")
    while study.snapshot()["num_done"] < wanted:
        (query,) = study.ask(owner=owner, lease=5.0)
        value = round(sum(query.point.values()), 6)
        if study.tell(query, y=value):
            sys.stdout.write(json.dumps([query.id, value]) + "\n")
            sys.stdout.flush()
        time.sleep(0.02)


if __name__ == "__main__":
    worker(sys.argv[1], sys.argv[2], int(sys.argv[3]))
