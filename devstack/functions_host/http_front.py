"""The host's HTTP server: keys, routes, limits, and the administrator's addresses."""

import asyncio
import json
import os
from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus

from aiohttp import web

from devstack.functions_host.durable.addresses import SYSTEM_KEY
from devstack.functions_host.durable.hub import Hub
from devstack.functions_host.errors import HostError
from devstack.functions_host.frames import encodable
from devstack.functions_host.http_trigger import HttpTrigger
from devstack.functions_host.keys import Keys
from devstack.functions_host.routes import RouteTable, split_path
from devstack.functions_host.triggers import NotByHandError, Trigger
from devstack.functions_host.worker_process import WorkerProcess

#: The platform's limit of a request.
MAX_REQUEST_BODY = 100 * 1024 * 1024

_HOST = "127.0.0.1"
#: How long a connection may still be busy when everything else has ended.
_SHUTDOWN_SECONDS = 1


class HttpFront:
    """Serves every HTTP function and the admin addresses on one port of this machine."""

    def __init__(
        self,
        triggers: Sequence[Trigger],
        worker: WorkerProcess,
        keys: Keys,
        *,
        response_limit: timedelta,
        durable: Hub | None = None,
    ) -> None:
        self._triggers = {trigger.function.name: trigger for trigger in triggers}
        self._worker = worker
        self._keys = keys
        self._durable = durable
        self._limit = response_limit.total_seconds()
        http = [trigger for trigger in triggers if isinstance(trigger, HttpTrigger)]
        self._routes = RouteTable((trigger.route, trigger) for trigger in http)
        self._stopping = False
        #: The loop keeps only weak references to what runs beside the requests.
        self._running: set[asyncio.Task[object]] = set()
        self._runner = web.AppRunner(
            self._application(), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
        )

    async def start(self, port: int) -> int:
        """Listen on `port`, 0 for a free one, and return the port, or raise HostError."""
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, _HOST, port).start()
        except (OSError, OverflowError) as error:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
            msg = f"port {port} of {_HOST} cannot be had ({why}); give another --port, or 0."
            raise HostError(msg) from error
        return int(self._runner.addresses[0][1])

    def stop_receiving(self) -> None:
        """Answer 503 from now on."""
        self._stopping = True

    async def close(self) -> None:
        """Close every connection."""
        await self._runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_REQUEST_BODY)
        application.router.add_get("/admin/host/status", self._status)
        application.router.add_get("/admin/functions", self._list)
        application.router.add_post("/admin/functions/{name}", self._start_by_hand)
        if self._durable is not None:
            self._durable.mount(application.router, self._admits_to_webhooks)
        application.router.add_route("*", "/{path:.*}", self._serve)
        return application

    async def _serve(self, request: web.Request) -> web.Response:
        match = self._routes.find(request.method, split_path(request.rel_url.raw_path))
        if match.target is None:
            if match.allowed:
                raise web.HTTPMethodNotAllowed(request.method, match.allowed)
            raise web.HTTPNotFound
        trigger = match.target
        if not self._keys.admit(
            _presented_key(request), level=trigger.auth_level, function=trigger.function.name
        ):
            raise web.HTTPUnauthorized
        if self._stopping or not await self._worker.is_ready():
            raise web.HTTPServiceUnavailable
        return await self._within_limit(trigger, request, match.parameters)

    async def _within_limit(
        self, trigger: HttpTrigger, request: web.Request, parameters: dict[str, str]
    ) -> web.Response:
        answer = self._beside(asyncio.create_task(trigger.answer(request, parameters)))
        try:
            # The function runs on past the limit, as it does on the platform.
            return await asyncio.wait_for(asyncio.shield(answer), self._limit)
        except TimeoutError:
            raise web.HTTPGatewayTimeout from None

    async def _status(self, _: web.Request) -> web.Response:
        state = "Running" if self._worker.ready.is_set() else "Starting"
        return web.json_response(
            {
                "state": "Stopping" if self._stopping else state,
                "functions": list(self._triggers),
                "workerPid": self._worker.pid,
            }
        )

    async def _list(self, request: web.Request) -> web.Response:
        self._demand_master_key(request)
        return web.json_response([_description(trigger) for trigger in self._triggers.values()])

    async def _start_by_hand(self, request: web.Request) -> web.Response:
        self._demand_master_key(request)
        trigger = self._triggers.get(request.match_info["name"])
        if trigger is None:
            raise web.HTTPNotFound
        text = await _input_of(request)
        try:
            trigger.check_by_hand()
        except NotByHandError as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        if self._stopping:
            raise web.HTTPServiceUnavailable
        self._beside(asyncio.create_task(trigger.run_by_hand(text)))
        return web.Response(status=HTTPStatus.ACCEPTED)

    def _admits_to_webhooks(self, request: web.Request) -> bool:
        return self._keys.admit_to_system(_presented_key(request), SYSTEM_KEY)

    def _beside[T](self, task: asyncio.Task[T]) -> asyncio.Task[T]:
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def _demand_master_key(self, request: web.Request) -> None:
        if not self._keys.admit(_presented_key(request), level="admin"):
            raise web.HTTPUnauthorized


def _presented_key(request: web.Request) -> str | None:
    return request.headers.get("x-functions-key") or request.query.get("code")


async def _input_of(request: web.Request) -> str:
    """Return the `input` of the platform's body `{"input": "…"}`; an empty body means none."""
    complaint = 'the body must be {"input": "…"} with a text'
    try:
        document = json.loads(await request.text() or "{}")
    except (LookupError, RecursionError, ValueError) as error:  # charset, nesting, the rest
        raise web.HTTPBadRequest(text=complaint) from error
    text = (document.get("input") or "") if isinstance(document, dict) else None
    if not isinstance(text, str) or text != encodable(text):
        raise web.HTTPBadRequest(text=complaint)
    return text


def _description(trigger: Trigger) -> dict[str, object]:
    kind = next(b["type"] for b in trigger.function.bindings if b["type"].endswith("Trigger"))
    facts: dict[str, object] = {"name": trigger.function.name, "trigger": kind}
    if isinstance(trigger, HttpTrigger):
        facts["route"] = f"/{trigger.template}"
        facts["methods"] = sorted(trigger.route.methods)
        facts["authLevel"] = trigger.auth_level
    return facts
