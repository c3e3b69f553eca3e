"""Pages for people: all studies of a store, and one study. The server sends a frame; the script fills it over the same interface
that programs use, and keeps it up to date."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from hyperleaf.server.access import problem
from hyperleaf.server.answers import described
from hyperleaf.server.operations import Call
from hyperleaf.server.studies import Studies, Warm

ASSETS = {
    "report.css": ("hyperleaf.report", "page.css", "text/css"),
    "report.js": ("hyperleaf.report", "page.js", "text/javascript"),
    "live.css": ("hyperleaf.server.site", "live.css", "text/css"),
    "live.js": ("hyperleaf.server.site", "live.js", "text/javascript"),
    "bench.js": ("hyperleaf.server.site", "bench.js", "text/javascript"),
    "what-if.js": ("hyperleaf.server.site", "what-if.js", "text/javascript"),
    "studies.js": ("hyperleaf.server.site", "studies.js", "text/javascript"),
    "plotly.js": ("", "", "text/javascript"),
}


class Pages:
    def __init__(self, studies: Studies) -> None:
        self._studies = studies
        self._templates = Environment(
            loader=PackageLoader("hyperleaf.server", "site"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    async def answer(self, request: Request, parts: list[str]) -> Response:
        """Of a page or of what pages are made of; anything else is not there."""
        if request.method not in ("GET", "HEAD"):
            return problem(405, "Method", "a page is only looked at. What can be done stands at /api/v1/openapi.json.")
        role = request.scope["state"]["role"]
        if parts == [""]:
            names = await self._studies.quickly(self._studies.names)
            return self._page("studies.html", names=names, role=role, path=_path)
        if len(parts) == 2 and parts[0] == "studies":
            warm = await self._studies.quickly(lambda: self._studies.get(parts[1]))
            study = await self._studies.quickly(lambda: _study(warm))
            return self._page("study.html", study=study, role=role, path=_path)
        if len(parts) == 2 and parts[0] == "assets" and parts[1] in ASSETS:
            content, mark = await self._studies.quickly(lambda: asset(parts[1]))
            headers = {"etag": f'"{mark}"', "cache-control": "private, no-cache"}
            if request.headers.get("if-none-match") == f'"{mark}"':
                return Response(status_code=304, headers=headers)
            return Response(content, media_type=ASSETS[parts[1]][2], headers=headers)
        return problem(404, "NotFound", "there is no such page. The list of studies is at /.")

    def _page(self, name: str, **context: Any) -> Response:
        return HTMLResponse(self._templates.get_template(name).render(**context))


@cache
def asset(name: str) -> tuple[bytes, str]:
    """The content, and a mark that changes with it."""
    package, file, _ = ASSETS[name]
    if name == "plotly.js":
        from plotly.offline import get_plotlyjs

        # Its maps of the world, which nobody draws here, would add a style that the policy forbids.
        content = re.sub(rb'!document\.getElementById\("[0-9a-f]{64}"\)', b"!1", get_plotlyjs().encode())
    else:
        content = files(package).joinpath(file).read_bytes()
    if name == "report.js":  # the pages say themselves when something is to be shown
        content = content.replace(b"\nshow(document);\n", b"\n")
    return content, hashlib.sha256(content).hexdigest()[:16]


def _path(name: str) -> str:
    return quote(name, safe="")


def _study(warm: Warm) -> dict[str, Any]:
    """What the frame of a page needs to know of a study: its inputs and outputs as fields to fill in."""
    call = Call("view", 0, {}, {}, None, 0)
    found = described(warm, call)
    domain = warm.snapshot().domain
    inputs = []
    for axis in found["domain"]["axes"]:
        one = {
            "name": axis["name"],
            "kind": axis["kind"],
            "unit": axis.get("unit") or "",
            "words": domain.axes[axis["name"]].describe(),
        }
        one |= {key: axis[key] for key in ("low", "high", "log", "options") if key in axis}
        inputs.append(one)
    outputs = [
        {"name": name, "unit": one.get("unit", "")} for name, one in warm.snapshot().definition.to_json()["outputs"].items()
    ]
    about = {"name": warm.name, "path": _path(warm.name), "inputs": inputs, "outputs": outputs}
    return {**about, "description": found["study"].get("description", ""), "json": json.dumps(about, ensure_ascii=True)}
