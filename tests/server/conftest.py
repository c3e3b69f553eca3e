"""A served study, and requests to it that no browser and no client of ours would send."""

import http.client
import json
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest

from hyperleaf.domain import Domain, Integer, Real
from hyperleaf.server.access import Limits
from hyperleaf.server.serving import Server, Settings
from hyperleaf.storage import open_storage
from hyperleaf.study import Study

NASTY = "a/b <script>throw 'harm'</script>"
LIGHT = {"kind": "stationary", "inference": {"kind": "map", "restarts": 1}}
DOMAIN = Domain(speed=Real(0, 10, unit="<b>1/min</b>"), gear=Integer(1, 5))


def torque(point) -> float:
    return float(20 + 10 * np.sin(point["speed"]) + point["gear"])


def make_study(path, name=NASTY, num=8, **options) -> Study:
    outputs = {"torque": {"unit": "N m"}}
    study = Study.create(name, DOMAIN, outputs, storage=f"sqlite:///{path}", surrogate=LIGHT, design=num + 2, **options)
    study.add([{**p, "torque": torque(p)} for p in DOMAIN.design(num, "sobol", 0)])
    return study


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("served")
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    study = make_study(folder / "s.db", stop={"queries": 40}, description="<img src=x onerror=\"throw 'harm'\">")
    limits = Limits(body=100_000, points=1000, seconds=1.0)
    server = Server(open_storage(f"sqlite:///{folder / 's.db'}"), Settings(port=0, limits=limits))
    with server.in_background():
        found = SimpleNamespace(server=server, study=study, folder=folder, port=server.access.port, token=server.access.token)
        found.send = lambda *arguments, **options: send(found, *arguments, **options)
        found.torque = torque
        yield found
    patch.undo()


def send(served, method, path, body=None, token=..., **headers):
    """The status, the headers and the content of an answer; JSON is read."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=300)
    given = {"Authorization": f"Bearer {served.token if token is ... else token}"} if token is not None else {}
    if body is not None and not isinstance(body, bytes):
        body, given = json.dumps(body).encode(), {**given, "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {name: value for name, value in given.items() if value is not None})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.headers.get("content-type", "").startswith("application/json"):
        content = json.loads(content)
    return answer.status, answer.headers, content
