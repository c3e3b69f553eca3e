"""The example of two workers by HTTP and a person on one study goes as its README says."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from hyperleaf.server.client import connect
from hyperleaf.study import Study

ROOT = Path(__file__).resolve().parents[2]


def test_two_workers_and_a_person_share_a_study(tmp_path):
    folder = tmp_path / "two_workers"
    shutil.copytree(ROOT / "examples" / "two_workers", folder, ignore=shutil.ignore_patterns("*.db*", "runs"))
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PYTHONPATH": path}

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "hyperleaf.cli", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)

    shown = (folder / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^hyperleaf (.*?)(?: +#.*)?$", shown, re.MULTILINE) == [
        "serve study.toml",
        "run study.toml --connect http://127.0.0.1:8765",
    ]
    server = start("serve", "study.toml", "--port", "0", "--json")
    workers = []
    try:
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(server.stdout.readline())
            assert lines[-1], "it did not start"
        url = json.loads("".join(lines))["url"]
        address = url.partition("/?")[0]  # workers on this machine find the token by themselves
        workers = [start("run", "study.toml", "--connect", address, "--queries", "2") for _ in range(2)]
        with connect(url) as person:
            (query,) = person.ask()
            assert query.owner == "person" and person.tell(query, thrust=3.5)
        said = [worker.communicate(timeout=240)[0] for worker in workers]
        assert all(worker.returncode == 0 for worker in workers)
        assert all(one.count("→ thrust=") == 2 and "Stopped: 2 more runs were asked for." in one for one in said)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        server.send_signal(signal.SIGINT)
        server.wait(60)
    record = Study.load("nozzle", storage=f"sqlite:///{folder / 'nozzle.db'}").record()
    assert len(record.observations) == 5 and len({tuple(query.point.values()) for query in record.queries}) == 5
