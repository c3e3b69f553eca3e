"""The server is killed at random moments while four workers ask and tell by HTTP: nothing is lost, nothing is doubled, and the
workers go on when it is back. No surrogate is needed: the queries are those of a long first design."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from hyperleaf.domain import Domain, Real
from hyperleaf.study import Study

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Lived:
    """`hyperleaf serve` as a process, killed and started again at the same port, with a token that stays."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        self.environment = os.environ | {"XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": path}

    def start(self) -> None:
        command = [sys.executable, "-m", "hyperleaf.cli", "serve", f"sqlite:///{self.folder / 's.db'}"]
        command += ["--port", str(self.port), "--token-file", str(self.folder / "token"), "--json"]
        self.process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None and self.process.stdout.readline().startswith("{"), "it did not start"

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


def killed(folder: Path, kills: int, seed: int, wanted: int) -> tuple[Study, list[list], int]:
    study = Study.create(
        "s",
        Domain(a=Real(0, 1), b=Real(0, 1)),
        "y",
        storage=f"sqlite:///{folder / 's.db'}",
        design={"size": 10_000, "kind": "uniform"},
    )
    server, chance = Lived(folder), random.Random(seed)
    server.start()
    url = f"http://127.0.0.1:{server.port}/?token={(folder / 'token').read_text().strip()}"
    command = [sys.executable, str(HERE / "serving.py"), url]
    workers = [
        subprocess.Popen([*command, f"w{i}", str(wanted)], env=server.environment, stdout=subprocess.PIPE, text=True)
        for i in range(4)
    ]
    before, done = 0, 0
    try:
        for _ in range(kills):
            deadline = time.monotonic() + 120
            while study.snapshot().num_done <= before and time.monotonic() < deadline:
                time.sleep(0.02)  # until the workers are at it again
            time.sleep(chance.uniform(0.0, 0.6))
            server.kill()
            before = study.snapshot().num_done
            done += 1
            server.start()
        said = []
        for one in workers:
            out, _ = one.communicate(timeout=600)
            assert one.returncode == 0, out
            said += [json.loads(line) for line in out.splitlines()]
    finally:
        for one in workers:
            one.kill()
        server.kill()
    return study, said, done


def check(study: Study, said: list[list], wanted: int) -> None:
    record = study.record()
    told = {one.query_id: one.outputs["y"] for one in record.observations}
    assert len(told) >= wanted
    assert all(told[number] == value for number, value in said), "what was said to be kept is not there"
    assert max(Counter(number for number, _ in said).values()) == 1, "a query was told anew twice"
    for number, value in told.items():
        assert value == pytest.approx(sum(record.queries[number - 1].point.values()), abs=1e-6)
    points = [tuple(query.point.values()) for query in record.queries]
    assert len(set(points)) == len(points) and [query.id for query in record.queries] == list(range(1, len(points) + 1))
    owners = Counter(query.owner for query in record.queries if query.owner)
    assert max(owners.values()) == 1, "a request that was sent again made another query"


def test_nothing_is_lost_or_doubled_by_kills(tmp_path):
    study, said, done = killed(tmp_path, kills=2, seed=0, wanted=60)
    check(study, said, 60)
    assert done == 2


@pytest.mark.long
def test_nothing_is_lost_or_doubled_by_a_hundred_kills(tmp_path):
    study, said, done = killed(tmp_path, kills=100, seed=1, wanted=4000)
    check(study, said, 2000)
    assert done == 100
