"""Many clients at once, for a while, with a study that learns meanwhile: nothing lost, memory bounded, looking stays quick."""

import http.client
import json
import socket
import threading
import time
from urllib.parse import quote

import numpy as np
import psutil
import pytest

from hyperleaf.server.client import connect
from hyperleaf.server.serving import Server, Settings
from hyperleaf.storage import open_storage
from hyperleaf.study import Study

NASTY = "a/b <script>throw 'harm'</script>"
STUDY = f"/api/v1/studies/{quote(NASTY, safe='')}"


def load(served, clients: int, rate: float, seconds: float) -> tuple[list[float], int, list[str]]:
    """Snapshots at a rate from many clients, each with its own connection, while somebody asks and tells. The times they took,
    how many runs were told, and what went wrong."""
    times: list[float] = []
    trouble: list[str] = []
    told = 0
    ends = time.monotonic() + seconds
    lock = threading.Lock()

    def look(i: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        following = time.monotonic() + i / rate
        for _ in range(round(rate * seconds / clients)):
            time.sleep(max(following - time.monotonic(), 0.0))
            following += clients / rate
            began = time.perf_counter()
            try:
                connection.request("GET", f"{STUDY}/snapshot", headers={"Authorization": f"Bearer {served.token}"})
                answer = connection.getresponse()
                values = json.loads(answer.read())
                assert answer.status == 200 and values["study"] == NASTY
            except Exception as error:
                trouble.append(repr(error))
                connection.close()
                continue
            with lock:
                times.append(time.perf_counter() - began)

    def work() -> None:
        nonlocal told
        study = connect(served.server.url)
        while time.monotonic() < ends:
            (query,) = study.ask(owner="load")
            told += study.tell(query, torque=served.torque(query.point))
            time.sleep(0.5)

    threads = [threading.Thread(target=look, args=(i,)) for i in range(clients)]
    threads.append(threading.Thread(target=work))
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return times, told, trouble


def test_fifty_clients_look_while_it_learns(served):
    before = served.study.status().num_observations
    times, told, trouble = load(served, clients=50, rate=20, seconds=5)
    assert trouble == [] and len(times) == 100
    assert served.study.status().num_observations == before + told


@pytest.mark.long
def test_fifty_clients_for_five_minutes(served, record_property):
    process, before = psutil.Process(), served.study.status().num_observations
    load(served, clients=50, rate=20, seconds=20)
    started = process.memory_info().rss
    middle = served.study.status().num_observations
    times, told, trouble = load(served, clients=50, rate=20, seconds=300)
    grown = process.memory_info().rss - started
    p99 = float(np.quantile(times, 0.99))
    for name, value in {
        "requests": len(times),
        "p99": p99,
        "median": float(np.median(times)),
        "told": told,
        "grown": grown,
    }.items():
        record_property(name, value)
    print(
        f"{len(times)} requests, median {1e3 * np.median(times):.1f} ms, p99 {1e3 * p99:.1f} ms, told {told}, "
        f"grown {grown >> 20} MiB"
    )
    assert trouble == [] and served.study.status().num_observations == middle + told > before
    assert p99 < 0.2 and grown < 300 * 2**20


def test_answers_are_sent_at_once(served):
    """asyncio turns Nagle's algorithm off for sockets that name their protocol; with it every answer takes 40 ms more."""
    assert served.server.socket.proto == socket.IPPROTO_TCP


@pytest.mark.long
def test_predicting_by_http_costs_little_more(served, tmp_path):
    """1000 new points each time, of eight leaves and 128 draws: what is kept of the last answer would make the library free."""
    address, domain = f"sqlite:///{tmp_path / 's.db'}", served.study.domain
    study = Study.create("hill", domain, ["torque"], surrogate={"kind": "hhk", "effort": "fast"}, storage=address)
    study.add([{**point, "torque": served.torque(point)} for point in domain.design(40, "sobol", 0)])
    pools = [domain.design(1000, "uniform", seed) for seed in range(15)]

    def spent(predict, points) -> float:
        began = time.perf_counter()
        mixture = predict(points)
        mixture.mean(), mixture.std()
        return time.perf_counter() - began

    server = Server(open_storage(address), Settings(port=0))
    with server.in_background():
        remote = connect(server.url)
        found = [
            (spent(study.predict, points), spent(remote.predict, points)) for points in pools
        ]  # by turns: machines are shared
    here, there = np.median(found[1:], axis=0)
    print(f"library {1e3 * here:.1f} ms, HTTP {1e3 * there:.1f} ms, ratio {there / here:.2f}")
    assert there < 1.5 * here
