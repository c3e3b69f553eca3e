"""The ASGI application: finds the operation of a request, calls it in a thread, and turns errors into sentences.

A request with an Idempotency-Key that was answered before gets the same answer again; one that arrives while the first is still
at work waits for it. Keys are remembered for as long as the process lives; what must outlive it is in the store (see `answers`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from hyperleaf.errors import ExhaustedError, HyperleafError, InferenceError, InputError, NotFittedYetError
from hyperleaf.server import answers
from hyperleaf.server.access import Access, Guard, problem
from hyperleaf.server.catalogue import OPERATIONS
from hyperleaf.server.openapi import describe
from hyperleaf.server.operations import ROOT, Call, Operation, check_body, matched, read_json, split
from hyperleaf.server.pages import Pages
from hyperleaf.server.studies import Studies, Warm
from hyperleaf.server.watching import Watcher, opened
from hyperleaf.storage.base import AlreadyToldError, Conflict, StorageError, StudyNotFoundError, UnknownQueryError
from hyperleaf.study.snapshot import Snapshot
from hyperleaf.values import plain

log = logging.getLogger(__name__)
REMEMBERED = 4096  # keys
SIGN_OF_LIFE = 15.0  # seconds between comments in a stream of events
STATUS: tuple[tuple[type[HyperleafError], int], ...] = (
    (answers.TooManyPointsError, 413),
    (StudyNotFoundError, 404),
    (UnknownQueryError, 404),
    (AlreadyToldError, 409),
    (Conflict, 409),
    (ExhaustedError, 409),
    (NotFittedYetError, 409),
    (InputError, 422),
    (StorageError, 503),
    (InferenceError, 500),
)


class Application:
    """Serves studies to whom the guard lets through; use `guarded`."""

    def __init__(self, studies: Studies, access: Access) -> None:
        self.studies, self.access = studies, access
        self.watcher = Watcher(studies, access.limits.listeners)
        self.pages = Pages(studies)
        self._answered: OrderedDict[str, tuple[str, asyncio.Future[Response]]] = OrderedDict()
        self.ends = False

    def guarded(self) -> Guard:
        return Guard(self, self.access)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except HyperleafError as error:
            response = self._explained(error)
        except RecursionError:
            response = problem(400, "InputError", "a request may not be nested as deeply as this one.")
        except Exception as error:  # of whatever kind: whoever asked gets an answer, and the log the traceback
            log.exception("%s %s", request.method, request.url.path)
            response = problem(500, type(error).__name__, "something went wrong on the server; its log says what.")
        await response(scope, receive, send)

    async def _live(self, receive: Any, send: Any) -> None:
        watching: asyncio.Task[None] | None = None
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                watching = asyncio.create_task(self.watcher.run())
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                if watching is not None:
                    watching.cancel()
                    with suppress(asyncio.CancelledError):
                        await watching
                await asyncio.get_running_loop().run_in_executor(None, self.studies.close)
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, request: Request) -> Response:
        raw = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
        parts = split(raw)
        if parts[:2] != ["api", "v1"]:
            return await self.pages.answer(request, parts)
        methods = set()
        for operation in OPERATIONS:
            places = matched(operation, parts)
            if places is not None:
                methods.add(operation.method)
                if operation.method == ("GET" if request.method == "HEAD" else request.method):
                    return await self._operate(operation, places, request)
        if methods:
            return JSONResponse(
                {"error": {"kind": "Method", "message": f"this address takes {' and '.join(sorted(methods))}."}},
                405,
                {"allow": ", ".join(sorted(methods))},
            )
        return problem(404, "NotFound", f"there is nothing here. What there is: GET {ROOT}/openapi.json")

    async def _operate(self, operation: Operation, places: dict[str, str], request: Request) -> Response:
        role = request.scope["state"]["role"]
        if operation.writes and role != "answer":
            return problem(403, "ReadOnly", "this link is for looking only. Ask whoever started the server for the other one.")
        if operation.path == f"{ROOT}/openapi.json":
            return JSONResponse(describe(OPERATIONS))
        body = await request.body()
        values = {name: value for name, value in read_json(body).items() if value is not None} if operation.body else {}
        check_body(operation, values)
        key = request.headers.get("idempotency-key")
        if key is not None and not answers.KEY.fullmatch(key):
            raise InputError(f"an Idempotency-Key must be 1 to 80 letters, digits, '.', ':', '_' or '-'; got {key!r:.100}.")
        number = places.get("query", "1")
        if not (number.isascii() and number.isdigit() and len(number) < 19):
            raise UnknownQueryError(f"a query must be named by its number; got {number!r:.40}.")
        call = Call(
            role,
            int(number),
            values,
            dict(request.query_params),
            key,
            self.access.limits.points,
            self.studies.names,
            self.studies.get,
        )
        if not operation.writes or key is None:
            return await self._made(operation, places, call)
        return await self._once(key, f"{request.url.path} {hashlib.sha256(body).hexdigest()}", operation, places, call)

    async def _once(self, key: str, digest: str, operation: Operation, places: dict[str, str], call: Call) -> Response:
        """The answer that was given to the request with this key."""
        before = self._answered.get(key)
        if before is not None:
            if before[0] != digest:
                raise InputError("an Idempotency-Key belongs to one request; this one was sent with another. Make a new one.")
            return await asyncio.shield(before[1])
        coming: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answered[key] = digest, coming
        while len(self._answered) > REMEMBERED:
            self._answered.popitem(last=False)
        try:
            response = await self._made(operation, places, call)
        except BaseException as error:
            self._answered.pop(key, None)  # what failed may be tried again
            response = self._explained(error) if isinstance(error, HyperleafError) else problem(503, "Interrupted", "try again.")
            coming.set_result(response)
            raise
        coming.set_result(response)
        return response

    async def _made(self, operation: Operation, places: dict[str, str], call: Call) -> Response:
        answer: Callable[..., Any] | None = operation.answer
        if operation.kind == "store":
            assert answer is not None
            return _json(await self.studies.quickly(lambda: answer(call)))
        warm = await self.studies.quickly(lambda: self.studies.get(places["study"]))
        if operation.kind == "stream":
            return await self._events(warm)
        assert answer is not None
        at_once = not call.body.get("wait", True) and warm.last_learned is not None  # with what was learned last
        if operation.kind == "quick" or at_once:
            found = await self.studies.quickly(lambda: _encoded(answer(warm, call)))
        else:
            found = await self.studies.in_turn(warm, lambda: _encoded(answer(warm, call)))
        if operation.writes:
            self.watcher.nudge()
        if isinstance(found, tuple):
            content, name = found
            return Response(
                content, media_type=operation.media, headers={"content-disposition": f'attachment; filename="{name}"'}
            )
        return Response(found, media_type="application/json")

    def _explained(self, error: HyperleafError) -> Response:
        status = next((status for kind, status in STATUS if isinstance(error, kind)), 500)
        return problem(status, type(error).__name__, self.studies.words_of(error))

    # --- events

    async def _events(self, warm: Warm) -> Response:
        if self.watcher.is_full:
            return problem(503, "TooMany", "as many listen as may at a time. Close a page, or look again later.")
        first = await self.studies.quickly(warm.snapshot)
        return StreamingResponse(self._stream(first), media_type="text/event-stream")

    async def _stream(self, first: Snapshot) -> AsyncIterator[str]:
        with self.watcher.listening(first.name, first) as queue:
            yield _event(opened(first))
            while not self.ends:
                try:
                    yield _event(await asyncio.wait_for(queue.get(), SIGN_OF_LIFE))
                except TimeoutError:
                    yield ": still here\n\n"


def _event(values: dict[str, Any]) -> str:
    lines = [f"event: {values['event']}", f"data: {json.dumps(plain(values), allow_nan=False)}"]
    return "\n".join([f"id: {values['version']}", *lines] if "version" in values else lines) + "\n\n"


def _encoded(found: Any) -> Any:
    """A file as it is; else JSON, made in the thread that computed it."""
    return found if isinstance(found, tuple) else _bytes(found)


def _bytes(values: Any) -> bytes:
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
    except (TypeError, ValueError):  # of types that JSON does not know, or with figures that are no numbers
        return json.dumps(plain(values), ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")


def _json(values: Any) -> Response:
    return Response(_bytes(values), media_type="application/json")
