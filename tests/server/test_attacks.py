"""What somebody may try on a server who is not to come in, and what must not bring it down."""

import json
import os
import socket
import stat
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from hyperleaf.errors import InputError
from hyperleaf.server import tokens
from hyperleaf.server.access import HEADERS, Access
from hyperleaf.server.serving import Settings, is_loopback

NASTY = "a/b <script>throw 'harm'</script>"
STUDY = f"/api/v1/studies/{quote(NASTY, safe='')}"


@pytest.mark.parametrize("path", ["/", "/api/v1/studies", "/api/v1/openapi.json", "/assets/live.js", f"{STUDY}/export.csv"])
@pytest.mark.parametrize("token", [None, "", "wrong", "x" * 10_000, "Ünsinn"], ids=["none", "empty", "wrong", "long", "umlaut"])
def test_without_the_token_nothing_is_told(served, path, token):
    token = None if token is None else token.encode().decode("latin-1")
    status, headers, content = served.send("GET", path, token=token)
    assert status == 401 and headers["www-authenticate"] == "Bearer"
    assert NASTY not in json.dumps(content) and content["error"]["kind"] == "NoToken"


def test_a_link_gives_a_strict_cookie_which_is_no_token(served):
    status, headers, content = served.send("GET", f"/?token={served.token}", token=None)
    cookie = headers["set-cookie"]
    assert status == 200 and b'url=/"' in content and served.token not in content.decode()
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/")) and served.token not in cookie
    name, _, value = cookie.partition(";")[0].partition("=")
    assert served.send("GET", "/api/v1/studies", token=None, Cookie=f"{name}={value}")[0] == 200
    assert served.send("GET", "/api/v1/studies", token=value)[0] == 401
    assert served.send("GET", "/api/v1/studies", token=None, Cookie=f"{name}={served.token}")[0] == 401
    assert served.send("GET", "/?token=wrong", token=None, Cookie=f"{name}={value}")[0] == 401


def test_the_exchange_leads_to_no_other_host(served):
    for path in ("//evil.example/", "/\\evil.example", '/"><script>'):
        status, _, content = served.send("GET", f"{quote(path, safe='/')}?token={served.token}", token=None)
        assert status == 200 and b"url=//" not in content and b"<script>" not in content and b"url=http" not in content


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "127.0.0.1:1", "", "[::1"])
def test_a_foreign_host_is_refused_whatever_it_knows(served, host):
    status, _, content = served.send("GET", "/api/v1/studies", Host=host)
    assert status in (400, 421) and NASTY not in str(content)


def test_two_hosts_are_none(served):
    with socket.create_connection(("127.0.0.1", served.port)) as line:
        request = (
            f"GET /api/v1/studies HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n\r\n"
        )
        line.sendall(request.encode())
        assert line.recv(1000).split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
    ids=str,
)
def test_a_foreign_page_changes_nothing(served, headers):
    before = served.study.record().version
    status, _, content = served.send("POST", f"{STUDY}/ask", {"n": 1}, **headers)
    assert status == 403 and content["error"]["kind"] == "ForeignOrigin"
    assert served.study.record().version == before


def test_a_cookie_alone_changes_nothing(served):
    """A browser that sends the cookie says where it comes from; what does not is something else."""
    cookie = f"{served.server.access.cookie_name}={served.server.access.cookie('answer')}"
    path, body = f"{STUDY}/queries/1/confirm", {"who": "x"}
    assert served.send("POST", path, body, token=None, Cookie=cookie)[0] == 403
    own = f"http://127.0.0.1:{served.port}"
    assert served.send("POST", path, body, token=None, Cookie=cookie, Origin=own)[0] == 200


@pytest.mark.parametrize("kind", [None, "application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"])
def test_forms_are_refused(served, kind):
    status, _, content = served.send("POST", f"{STUDY}/ask", b"n=1", Content_Type=kind)
    assert status == 415 and content["error"]["kind"] == "ContentType"


def test_what_is_too_large_is_refused_before_it_is_read(served):
    status, _, content = served.send("POST", f"{STUDY}/add", {"runs": [], "note": "x" * 200_000})
    assert status == 413 and "100000 bytes" in content["error"]["message"]
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:  # in pieces, without saying how large
        head = f"POST {STUDY}/add HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        line.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        piece = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
        answer = b""
        try:
            for _ in range(30):
                line.sendall(piece)
            answer = line.recv(200)
        except (ConnectionError, BrokenPipeError):
            answer = answer or b"HTTP/1.1 413"
        assert b" 413" in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("form", ["rows", "columns"])
def test_ten_thousand_points_are_refused(served, form):
    rows = [{"s": 1}] * 10_000 if form == "rows" else {"s": [1] * 10_000}
    status, _, content = served.send("POST", f"{STUDY}/predict", {"points": rows})
    assert status == 413 and ("1 to 1000 points" in content["error"]["message"] or "bytes" in content["error"]["message"])


@pytest.mark.parametrize(
    "start", ["", "GET / HT", "POST /api/v1/studies HTTP/1.1\r\nHost: localhost\r\nX: "], ids=["silent", "half", "header"]
)
def test_a_connection_that_never_asks_is_closed(served, start):
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as line:
        line.sendall(start.encode())
        began = time.monotonic()
        assert line.recv(1000) == b"" and time.monotonic() - began < 8


def test_a_body_that_never_ends_is_given_up(served):
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as line:
        head = f"POST {STUDY}/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n"
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{".encode())
        assert b" 408 " in line.recv(1000).split(b"\r\n")[0] + b" "
    assert served.send("GET", "/api/v1/studies")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../tokens.py",
        "/assets/..%2f..%2fstudies.py",
        "/assets//etc/passwd",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/studies/..%2f..%2fetc%2fpasswd",
        "/assets/live.js%00.css",
    ],
)
def test_no_path_leads_out_of_the_house(served, path):
    status, _, content = served.send("GET", path)
    assert status == 404 and "root:" not in str(content)


@pytest.mark.parametrize(
    "body",
    [
        *(b"{", b"[1]", b'{"n": NaN}', b'{"n": "1"}', b'{"n": 0}', b'{"n": 1e3}', b'{"m": 1}', b"\xff\xfe", b"[" * 50_000),
        b'{"n": ' + b"9" * 5000 + b"}",  # more digits than Python reads
    ],
)
def test_nonsense_is_refused_with_a_sentence(served, body):
    status, _, content = served.send("POST", f"{STUDY}/ask", body, Content_Type="application/json")
    assert status in (400, 422) and content["error"]["message"].endswith((".", "'?", "?"))


@pytest.mark.parametrize("points", [{"speed": [1], "gear": 5}, {"speed": 1}, {"speed": {"a": 1}}, [[1]], [None]], ids=str)
def test_points_of_a_wrong_kind_are_refused_with_a_sentence(served, points):
    status, _, content = served.send("POST", f"{STUDY}/predict", {"points": points})
    assert status == 422 and "went wrong" not in content["error"]["message"]


def test_a_run_takes_no_less_than_no_time(served):
    status, _, content = served.send("POST", f"{STUDY}/queries/1/tell", {"values": {"torque": 1.0}, "seconds": -3.5})
    assert status == 422 and "seconds must be 0 or more; got -3.5" in content["error"]["message"]


def test_nobody_learns_where_the_store_is(served):
    """An address names machines, users and folders, and a link for looking goes to many."""
    view = served.server.access.view_token
    for path in ("/api/v1/studies/nothing", "/studies/nothing", "/api/v1/studies/nothing/events", f"{STUDY}/snapshot", STUDY):
        status, _, content = served.send("GET", path, token=view)
        assert status in (200, 404) and "s.db" not in str(content) and "sqlite" not in str(content), path
    assert "no study 'nothing'" in served.send("GET", "/api/v1/studies/nothing", token=view)[2]["error"]["message"]


def test_a_server_reached_by_another_port_is_named_with_it():
    """Through ssh -L 9000:… or a proxy a browser says another port than the server's own."""
    access = Access("a" * 20, frozenset({"localhost", "lab.example:9000"}), 80)
    assert access.names("localhost") and access.names("localhost:80") and access.names("LAB.example:9000")
    assert not any(map(access.names, ("localhost:9000", "lab.example", "lab.example:80", "")))


def test_no_page_asks_for_what_is_not_there(served):
    """A page without an icon of its own lets a browser look for /favicon.ico, and its console show an error."""
    for path, token in (("/", ...), (f"/?token={served.token}", None), ("/", None)):
        status, _, content = served.send("GET", path, token=token, Accept="text/html")
        assert status in (200, 401) and b'rel="icon" href="data:,"' in content, path


def test_a_link_for_looking_changes_nothing(served):
    view = served.server.access.view_token
    assert view and view != served.token
    assert served.send("GET", f"{STUDY}/snapshot", token=view)[0] == 200
    before = served.study.record().version
    for path in ("/ask", "/queries/1/void", "/queries/1/tell", "/add", "/beat"):
        body = {"runs": []} if path == "/add" else {"owners": []} if path == "/beat" else {"values": {}} if "tell" in path else {}
        status, _, content = served.send("POST", STUDY + path, body, token=view)
        assert status == 403 and content["error"]["kind"] == "ReadOnly", path
    assert served.study.record().version == before
    page = served.send("GET", f"/studies/{quote(NASTY, safe='')}", token=view)[2].decode()
    assert 'id="ask"' not in page and 'data-role="view"' in page


def test_no_simulator_can_be_started_or_defined(served):
    operations = served.send("GET", "/api/v1/openapi.json")[2]["paths"]
    assert not [path for path in operations if "simulator" in path or "run" in path.rpartition("/")[2] or "create" in path]
    assert served.send("PUT", STUDY, {"simulator": {"command": "touch x"}})[0] == 405
    found = served.send("GET", STUDY)[2]
    assert "simulator" not in found and "storage" not in found["study"]


def test_every_answer_carries_the_headers(served):
    for path, token in (("/", ...), ("/", None), (f"/?token={served.token}", None), ("/assets/live.js", ...), ("/nothing", ...)):
        headers = served.send("GET", path, token=token)[1]
        for name, value in HEADERS.items():
            assert name == "cache-control" or headers[name] == value, (path, name)
        assert "unsafe-eval" not in headers["content-security-policy"] and "server" not in headers
    assert "script-src 'self'" in HEADERS["content-security-policy"]


def test_names_are_texts_wherever_they_stand(served):
    page = served.send("GET", f"/studies/{quote(NASTY, safe='')}")[2].decode()
    parts = "".join(served.send("GET", f"{STUDY}/parts")[2]["parts"].values())
    for html in (page, parts, served.send("GET", "/")[2].decode()):
        assert "<script>throw" not in html and "<img src=x" not in html and "<b>1/min" not in html


def test_the_token_is_in_a_file_of_its_owner_alone(served):
    path = tokens.path_of(served.port)
    assert path.read_text().strip() == served.token and stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700


def test_a_token_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "token"
    token = tokens.read_or_make(path)
    assert tokens.read_or_make(path) == token and stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        tokens.read_or_make(path)
    path.chmod(0o600)
    path.write_text("short\n")
    with pytest.raises(InputError, match="16 ASCII"):
        tokens.read_or_make(path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "0.0.0.0"}, "needs TLS"),
        ({"host": "192.0.2.1"}, "--behind-proxy"),
        ({"host": "0.0.0.0", "no_token": True, "proxy": True}, "needs its token"),
        ({"tls_cert": Path("c.pem")}, "one of them"),
        ({"tls_cert": Path("c.pem"), "tls_key": Path("k.pem")}, "there is no c.pem"),
        ({"port": 70000}, "0 to 65535"),
    ],
    ids=str,
)
def test_what_would_be_open_to_others_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        Settings(**options).check()


def test_what_is_loopback():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.1.2.3", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org")))


def test_secrets_are_compared_in_constant_time(monkeypatch):
    compared = []
    real = __import__("hmac").compare_digest
    monkeypatch.setattr("hyperleaf.server.access.hmac.compare_digest", lambda a, b: compared.append(a) or real(a, b))
    access = Access("a" * 20, frozenset({"localhost"}), 80)
    assert access.role_of_token("a" * 20) == "answer" and len(compared) == 2  # the other role is compared too
    assert access.role_of_cookie("x") is None and len(compared) == 4
