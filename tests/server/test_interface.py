"""The HTTP interface and its client: the same as `Study`, wherever it is called from."""

import http.client
import json
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from hyperleaf.domain import Choice, Domain, Real
from hyperleaf.errors import DomainError, InputError
from hyperleaf.server.client import RemoteStudy, connect
from hyperleaf.server.openapi import describe
from hyperleaf.server.operations import Operation, matched, split
from hyperleaf.server.wire import ServerError
from hyperleaf.storage.base import AlreadyToldError, State, StudyNotFoundError, UnknownQueryError, UnreachableError
from hyperleaf.study import Study

NASTY = "a/b <script>throw 'harm'</script>"
STUDY = f"/api/v1/studies/{quote(NASTY, safe='')}"


@pytest.fixture(scope="module")
def remote(served) -> RemoteStudy:
    return Study.connect(served.server.url)


def test_a_served_study_is_the_study(served, remote):
    assert remote.name == NASTY and remote.domain == served.study.domain and remote.outputs == served.study.outputs
    assert remote.snapshot()["counts"]["done"] == served.study.status().counts["done"]
    assert "8 done" in repr(remote) and remote.connection.address in repr(remote)


def test_a_client_on_this_machine_finds_the_token_and_others_need_it(served, monkeypatch):
    assert connect(f"http://127.0.0.1:{served.port}").name == NASTY
    monkeypatch.setenv("HYPERLEAF_TOKEN", "wrong-wrong-wrong")
    with pytest.raises(ServerError, match="token"):
        connect(f"http://127.0.0.1:{served.port}")
    assert connect(f"http://127.0.0.1:{served.port}", token=served.token).name == NASTY
    with pytest.raises(StudyNotFoundError, match="nothing"):
        connect(served.server.url, "nothing")
    with pytest.raises(InputError, match="http://host:port"):
        connect("ftp://x")
    with pytest.raises(UnreachableError, match="hyperleaf serve"):
        connect("http://127.0.0.1:1", token="x" * 20, patience=0.2)


def test_ask_tell_and_all_that_follows(served, remote):
    query, again = remote.ask(2, owner="bench 1")
    assert query.state is State.RUNNING and query.owner.startswith("bench 1 ") and query.origin == "design"
    assert remote.beat([query.owner, again.owner]) == 2
    value = served.torque(query.point)
    assert remote.tell(query, torque=value, seconds=1.5) and not remote.tell(query, torque=value)
    with pytest.raises(AlreadyToldError, match="told once"):
        remote.tell(query, torque=value + 1)
    for wrong, words in ({}, "missing"), ({"torque": "1,5"}, "must be a number"), ({"torgue": 1}, "'torgue' is no output"):
        with pytest.raises(InputError, match=words):
            remote.tell(again, wrong)
    with pytest.raises(InputError, match=r"speed must be in \[0.0, 10.0\]"):
        remote.tell(again, torque=3.0, speed=11)
    assert remote.tell_failed(again, "no convergence") and not remote.tell_failed(again, "no convergence")
    assert remote.query(again.id).state is State.FAILED and remote.query(again.id).reason == "no convergence"
    assert remote.correct(query, torque=value + 1, why="typo", who="Ada") and remote.void(query) and remote.restore(query)
    assert remote.correct(query, torque=value, who="Ada") and remote.confirm(query) and not remote.confirm(query)
    assert next(change.who for change in served.study.record().changes if change.query_id == query.id) == "Ada"
    (added,) = remote.add([{"speed": 2.5, "gear": 3, "torque": 29.0}], note="by hand")
    assert added.origin == "added" and added.state is State.DONE
    (repeated,) = remote.repeat(query)
    assert dict(repeated.point) == dict(query.point) and remote.release(repeated) and not remote.release(repeated)
    assert len(remote.table()) == len(served.study.record().queries)
    with pytest.raises(UnknownQueryError, match="99"):
        remote.tell(99, torque=1.0)


def test_numbers_of_numpy_are_told_and_those_that_are_none_refused(served, remote):
    (query,) = remote.ask(owner="w")
    with pytest.raises(InputError, match="finite"):
        remote.tell(query, torque=float("nan"))
    with pytest.raises(InputError, match="object"):
        remote.tell(query, torque=object())
    assert remote.tell(query, torque=np.float32(20.5), seconds=np.float64(2), gear=np.int64(query.point["gear"]))
    assert served.study.record().observations[-1].outputs == {"torque": 20.5}
    assert len(remote.predict(served.study.domain.to_unit(served.study.domain.design(3)) * [10, 4] + [0, 1])) == 3


def test_a_server_that_is_away_is_waited_for_and_that_is_said(caplog, monkeypatch):
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="does not answer"):
        connect("http://127.0.0.1:1", token="x" * 20, patience=1.0)
    assert time.monotonic() - began < 10
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "http://127.0.0.1:1 does not answer" in said and "1 s" in said


def test_a_certificate_that_is_not_trusted_is_not_waited_for(monkeypatch):
    def refuse(*arguments):
        raise ssl.SSLCertVerificationError(1, "self-signed certificate")

    monkeypatch.setattr("http.client.HTTPSConnection.request", refuse)
    began = time.monotonic()
    with pytest.raises(ServerError, match=r"self-signed certificate.*SSL_CERT_FILE"):
        connect("https://lab.example", token="x" * 20)
    assert time.monotonic() - began < 5


def test_a_query_is_read_as_the_command_line_reads_it(served, remote):
    (query,) = remote.ask()
    assert query.owner == "person"
    body = {"values": {"torque": " 2.5D1 ", "speed": "3.25"}, "look": True}
    status, _, found = served.send("POST", f"{STUDY}/queries/{query.id}/tell", body)
    assert status == 200 and found["told"] and isinstance(found["suspects"], list)
    told = served.study.record().observations[-1]
    assert told.outputs == {"torque": 25.0} and told.point["speed"] == 3.25


def test_predictions_are_those_of_the_library(served, remote):
    points = served.study.domain.design(7, "uniform", 3)
    here, there = served.study.predict(points), remote.predict(points)
    assert np.array_equal(there.mean(), here.mean()) and np.array_equal(there.std(), here.std())
    assert np.allclose(there.interval(0.9), here.interval(0.9), rtol=1e-12)
    assert np.array_equal(remote.predict(points, noisy=True).std(), served.study.predict(points, noisy=True).std())
    rows = {"points": points, "quantiles": [0.5]}
    assert len(served.send("POST", f"{STUDY}/predict", rows)[2]["quantiles"]["0.5"]) == 7
    with pytest.raises(InputError, match="output must be one of"):
        remote.predict(points, "lift")
    with pytest.raises(DomainError):
        served.study.domain.to_unit([{"speed": 11, "gear": 1}])
    status, _, found = served.send("POST", f"{STUDY}/predict", {"points": [{"speed": 11, "gear": 1}]})
    assert status == 422 and found["error"]["kind"] == "DomainError"


def test_a_suggestion_is_what_ask_gives(served, remote):
    (suggested,) = remote.suggest()
    (query,) = remote.ask(owner="bench 2")
    assert dict(query.point) == suggested["point"]
    assert remote.release(query)


def test_a_request_that_is_sent_twice_is_done_once(served):
    path, num = f"{STUDY}/ask", len(served.study.record().queries)
    first = served.send("POST", path, {"owner": "w"}, Idempotency_Key="k1")
    again = served.send("POST", path, {"owner": "w"}, Idempotency_Key="k1")
    assert first[0] == 200 and first[2] == again[2]
    status, _, found = served.send("POST", path, {"owner": "v"}, Idempotency_Key="k1")
    assert status == 422 and "belongs to one request" in found["error"]["message"]
    served.server.application._answered.clear()  # as after a restart: then the store knows
    assert served.send("POST", path, {"owner": "w"}, Idempotency_Key="k1")[2]["queries"][0]["id"] == first[2]["queries"][0]["id"]
    runs = {"runs": [{"speed": 1.0, "gear": 2, "torque": 30.4}], "note": "n"}
    added = served.send("POST", f"{STUDY}/add", runs, Idempotency_Key="k2")[2]
    served.server.application._answered.clear()
    assert served.send("POST", f"{STUDY}/add", runs, Idempotency_Key="k2")[2]["queries"] == added["queries"]
    assert len(served.study.record().queries) <= num + 2
    served.study.release(first[2]["queries"][0]["id"])


def test_a_failure_that_is_sent_twice_is_one_attempt(tmp_path, served, remote):
    (query,) = remote.ask(owner="w3")
    path, body = f"{STUDY}/queries/{query.id}/failed", {"reason": "no", "attempt": 1, "owner": query.owner, "retry": True}
    assert served.send("POST", path, body)[2] == {"study": NASTY, "failed": True, "retried": True}
    assert served.send("POST", path, body)[2]["failed"] is False
    assert remote.query(query.id).attempt == 2 and remote.query(query.id).state is State.WAITING


def test_nobody_overrules_what_he_has_not_seen(served):
    body = {"values": {"torque": 21.0}, "who": "Ada", "why": "typo", "seen": 0}
    path = f"{STUDY}/queries/5/correct"
    assert served.send("POST", path, body)[2]["changed"] is True
    assert served.send("POST", path, body)[2]["changed"] is False  # the same, sent again
    status, _, found = served.send("POST", path, {**body, "who": "Bob"})
    assert status == 409 and "changed meanwhile by Ada" in found["error"]["message"]


def test_events_come_also_from_others(served):
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=300)
    connection.request("GET", f"{STUDY}/events", headers={"Authorization": f"Bearer {served.token}"})
    answer = connection.getresponse()
    assert answer.headers["content-type"].startswith("text/event-stream")

    def event() -> dict:
        while True:
            line = answer.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("data: "):
                return json.loads(line.removeprefix("data: "))

    assert event()["event"] == "opened"
    (query,) = served.study.ask(owner="person")  # another object at the same store
    asked = event()
    assert (asked["event"], asked["query"], asked["point"]) == ("asked", query.id, dict(query.point))
    code = "import sys; from hyperleaf.study import Study; Study.load(storage=sys.argv[1]).tell(int(sys.argv[2]), torque=22.0)"
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{served.folder / 's.db'}", str(query.id)], check=True)
    told = event()
    assert (told["event"], told["query"], told["outputs"]) == ("told", query.id, {"torque": 22.0})
    connection.close()


def test_files_come_as_files(served, remote, tmp_path):
    from hyperleaf import load_model

    model = load_model(remote.save_model(tmp_path / "m.npz"))
    point = served.study.domain.design(1)
    assert model.predict(point).mean() == served.study.predict(point).mean()
    page = remote.report(tmp_path / "r.html").read_text(encoding="utf-8")
    assert "What was learned" in page and "<script>throw" not in page


def test_slices_go_through_the_point(served):
    point = {"speed": 2.5, "gear": 3}
    found = served.send("POST", f"{STUDY}/slices", {"point": point})[2]
    here = served.study.predict([point])
    assert found["mean"] == pytest.approx(here.mean()[0], rel=1e-12) and found["std"] == pytest.approx(here.std()[0], rel=1e-9)
    assert [one["input"] for one in found["slices"]] == ["speed", "gear"] and found["slices"][1]["x"] == [1, 2, 3, 4, 5]
    assert found["slices"][1]["mean"][2] == pytest.approx(found["mean"])


def test_parts_of_a_page_are_those_of_the_report(served):
    quick = served.send("GET", f"{STUDY}/parts")[2]
    assert set(quick["parts"]) == {"queries", "suspects", "changes", "time", "runs", "definition"}
    assert 'id="table"' in quick["parts"]["runs"] and quick["tiles"][0]["what"] == "Runs"
    learned = served.send("GET", f"{STUDY}/learned")[2]
    assert learned["headline"].startswith("From ") and "torque to about" in learned["headline"]
    for key in ("learned", "accuracy", "next"):
        assert f'data-for="figure-{key}-1"' in learned["parts"][key]
    assert "error bars" in learned["parts"]["diagnostics"] and set(learned["point"]) == {"speed", "gear"}


def test_a_worker_runs_until_its_budget_and_tells_failures(served, remote):
    def sometimes(speed: float, gear: int) -> float:
        if gear == 5:
            raise RuntimeError("geared up")
        return served.torque({"speed": speed, "gear": gear})

    said = []
    stopped = remote.run(sometimes, queries=2, progress=lambda kind, query, what: said.append(kind))
    assert stopped.rule == "queries" and said.count("told") + said.count("failed") == 2
    assert not [query for query in served.study.record().queries if query.owner and "w0" in query.owner]
    with pytest.raises(InputError, match="needs a simulator on this machine"):
        remote.run()


def test_the_description_names_every_operation_once():
    found = describe([Operation("GET", "/a/{study}", "quick", "x"), Operation("POST", "/a/{study}", "quick", "y", writes=True)])
    assert set(found["paths"]["/a/{study}"]) == {"get", "post"} and found["openapi"].startswith("3.1")
    assert any(one["name"] == "Idempotency-Key" for one in found["paths"]["/a/{study}"]["post"]["parameters"])


def test_paths_are_cut_before_they_are_decoded():
    operation = Operation("GET", "/api/v1/studies/{study}/ask", "quick", "")
    assert matched(operation, split("/api/v1/studies/a%2Fb%20%3C/ask")) == {"study": "a/b <"}
    assert matched(operation, split("/api/v1/studies/a/b/ask")) is None


def test_looking_waits_for_nobody_who_learns(served, remote):
    """A snapshot is quick while something is learned: they are in threads apart, under locks apart."""
    warm = served.server.studies.get(NASTY)
    held, free = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: warm.slow(lambda study: (held.set(), free.wait(20))))
    thread.start()
    held.wait(20)
    began = time.monotonic()
    remote.snapshot()
    assert served.send("POST", f"{STUDY}/slices", {"wait": False})[0] == 200
    spent = time.monotonic() - began
    free.set()
    thread.join()
    assert spent < 15


def test_studies_of_a_store_come_and_go(tmp_path):
    from hyperleaf.server.studies import Studies
    from hyperleaf.storage import open_storage

    store = open_storage(f"sqlite:///{tmp_path / 's.db'}")
    domain = Domain(x=Real(0, 1), c=Choice("a", "b"))
    Study.create("one", domain, "y", storage=store)
    studies = Studies(store, names=("one",))
    Study.create("two", domain, "y", storage=store)
    assert studies.names() == ("one",) and Studies(store).names() == ("one", "two")
    with pytest.raises(StudyNotFoundError):
        studies.get("two")
    warm = studies.get("one")
    before = warm.snapshot()
    assert warm.snapshot() is before
    store.delete_study("one")
    Study.create("one", domain, "z", storage=store)
    assert list(warm.snapshot().definition.outputs) == ["z"]  # made anew meanwhile


def test_how_far_a_study_is(tmp_path):
    """Failing brings a study nearer to its end, but is no progress; without a rule nothing is measured."""
    from hyperleaf.server.progress import progress_of

    counted = Study.create("counted", Domain(x=Real(0, 1)), "y", design=8, stop={"queries": 8})
    assert progress_of(counted.snapshot())["share"] == 0.0
    first, second = counted.ask(2)
    counted.tell(first, y=1.0)
    counted.tell_failed(second, "no")
    found = counted.snapshot()
    assert progress_of(found)["share"] == 1 / 8
    assert [rule.words for rule in found.rules()] == ["1 of 8 runs finished", "the last run failed (limit 10)"]
    assert progress_of(Study.create("free", Domain(x=Real(0, 1)), "y").snapshot())["share"] is None


def test_a_token_of_a_restart_is_found_again(served, monkeypatch, tmp_path):
    client = connect(f"http://127.0.0.1:{served.port}")
    client.connection.token = "that of a server that is gone"
    assert client.snapshot()["study"] == NASTY


def test_everything_is_shipped():
    import hyperleaf.server

    site = Path(hyperleaf.server.__file__).parent / "site"
    for file in site.iterdir():
        text = file.read_text(encoding="utf-8")
        assert "http://" not in text and "https://" not in text and "//cdn" not in text, file.name
