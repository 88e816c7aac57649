"""The durable HTTP API: under a key for everyone, and without one for the library's client."""

import functools
import json
import logging
import re
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from aiohttp import web

from devstack.functions_host.durable.addresses import WEBHOOKS, Addresses
from devstack.functions_host.durable.events import EventType, event
from devstack.functions_host.durable.functions import Catalog, entity_id
from devstack.functions_host.durable.instances import Instance, Operation
from devstack.functions_host.durable.scheduler import Scheduler
from devstack.functions_host.durable.status import history_of, status_of
from devstack.functions_host.durable.store import AlreadyRunsError, Store
from devstack.functions_host.frames import encodable

_LOG = logging.getLogger("functions_host.durable")

Handler = Callable[[web.Request], Awaitable[web.Response]]

_LONGEST_ID = 100
_FORBIDDEN_IN_ID = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")
_NOT_HERE = ("rewind", "restart", "suspend", "resume")


class Api:
    """Answers requests about instances and entities."""

    def __init__(
        self, store: Store, catalog: Catalog, scheduler: Scheduler, addresses: Addresses
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._scheduler = scheduler
        self._addresses = addresses

    def mount(self, router: web.UrlDispatcher, admit: Callable[[web.Request], bool]) -> None:
        """Add the routes; `admit` says whether a request to the webhooks has a key."""

        def guarded(handler: Handler) -> Handler:
            @functools.wraps(handler)
            async def answer(request: web.Request) -> web.Response:
                if not admit(request):
                    raise web.HTTPUnauthorized
                return await handler(request)

            return answer

        for method, path, handler in self._routes():
            router.add_route(method, f"{WEBHOOKS}{path}", guarded(handler))
            router.add_route(method, f"{self._addresses.rpc_path}{path}", handler)

    def _routes(self) -> list[tuple[str, str, Handler]]:
        one = "/instances/{id}"
        return [
            ("POST", "/orchestrators/{name}", self._start),
            ("POST", "/orchestrators/{name}/{id}", self._start),
            ("GET", "/instances", self._list),
            ("GET", "/instances/", self._list),
            ("DELETE", "/instances", self._purge_many),
            ("DELETE", "/instances/", self._purge_many),
            ("GET", one, self._status),
            ("DELETE", one, self._purge),
            ("POST", f"{one}/terminate", self._terminate),
            ("POST", f"{one}/raiseEvent/{{event}}", self._raise),
            *(("POST", f"{one}/{verb}", self._not_here) for verb in _NOT_HERE),
            ("GET", "/entities/{name}/{key}", self._entity),
            ("POST", "/entities/{name}/{key}", self._signal),
        ]

    async def _start(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        instance_id = request.match_info.get("id") or uuid.uuid4().hex
        raw_input = await _json_body(request)
        if self._catalog.orchestrator(name) is None:
            return _refused(f"The function '{name}' doesn't exist or is not an orchestrator.")
        if (complaint := _complaint(instance_id)) is not None:
            return _refused(complaint)
        try:
            self._store.create(instance_id, name, raw_input, datetime.now(UTC))
        except AlreadyRunsError as error:
            return web.json_response({"Message": str(error)}, status=409)
        self._scheduler.wake()
        _LOG.info("%s %s: started", name, instance_id)
        urls = self._addresses.management(instance_id)
        headers = {"Location": urls["statusQueryGetUri"], "Retry-After": "10"}
        return web.json_response(urls, status=202, headers=headers)

    async def _status(self, request: web.Request) -> web.Response:
        instance = self._found(request)
        show_input = _flag(request, "showInput", default=True)
        facts = status_of(instance, show_input=show_input)
        if _flag(request, "showHistory", default=False):
            output = _flag(request, "showHistoryOutput", default=False)
            events = self._store.history(instance.id)
            facts["historyEvents"] = history_of(events, show_input=show_input, show_output=output)
        if not instance.has_ended:
            url = self._addresses.management(instance.id)["statusQueryGetUri"]
            headers = {"Location": url, "Retry-After": "5"}
            return web.json_response(facts, status=202, headers=headers)
        as_error = _flag(request, "returnInternalServerErrorOnFailure", default=False)
        failed = instance.status == "Failed" and as_error
        return web.json_response(facts, status=500 if failed else 200)

    async def _list(self, request: web.Request) -> web.Response:
        show_input = _flag(request, "showInput", default=True)
        chosen = filter(_filter(request), self._store.instances())
        return web.json_response([status_of(found, show_input=show_input) for found in chosen])

    async def _terminate(self, request: web.Request) -> web.Response:
        instance = self._running(request)
        reason = encodable(request.query.get("reason", ""))
        ended = event(EventType.EXECUTION_TERMINATED, datetime.now(UTC), Input=reason)
        self._store.deliver(instance.id, ended)
        self._scheduler.wake()
        return web.Response(status=202)

    async def _raise(self, request: web.Request) -> web.Response:
        instance = self._running(request)
        if request.content_type != "application/json":
            return _refused("Only application/json request content is supported")
        name, text = request.match_info["event"], await _json_body(request) or "null"
        raised = event(EventType.EVENT_RAISED, datetime.now(UTC), Name=name, Input=text)
        self._store.deliver(instance.id, raised)
        self._scheduler.wake()
        return web.Response(status=202)

    async def _purge(self, request: web.Request) -> web.Response:
        instance = self._found(request)
        if not instance.has_ended:
            msg = f"Only ended instances can be purged; {instance.id} is {instance.status}."
            return web.json_response({"Message": msg}, status=412)
        self._store.purge([instance.id])
        return web.json_response({"instancesDeleted": 1})

    async def _purge_many(self, request: web.Request) -> web.Response:
        if "createdTimeFrom" not in request.query:
            return _refused("Please provide value for 'createdTimeFrom' parameter.")
        chosen = filter(_filter(request), self._store.instances())
        ended = [instance.id for instance in chosen if instance.has_ended]
        self._store.purge(ended)
        if not ended:
            raise web.HTTPNotFound(text="")
        return web.json_response({"instancesDeleted": len(ended)})

    async def _not_here(self, request: web.Request) -> web.Response:
        verb = request.path.rpartition("/")[2]
        msg = f"The local host does not know '{verb}'; terminate the instance and start another."
        return web.json_response({"Message": msg}, status=501)

    async def _entity(self, request: web.Request) -> web.Response:
        entity = _entity_of(request)
        state = self._store.entity_state(entity)
        if state is None:
            raise web.HTTPNotFound(text="")
        return web.Response(text=state, content_type="application/json")

    async def _signal(self, request: web.Request) -> web.Response:
        entity = _entity_of(request)
        if not self._catalog.has_entity(entity):
            return _refused(f"The entity '{entity}' has no entity function in this app.")
        text = await _json_body(request) or "null"
        name = encodable(request.query.get("op", ""))
        operation = Operation(entity, str(uuid.uuid4()), name, text)
        self._store.signal(operation)
        self._scheduler.wake()
        return web.Response(status=202)

    def _found(self, request: web.Request) -> Instance:
        instance = self._store.instance(encodable(request.match_info["id"]))
        if instance is None:
            # The library's client reads the body as JSON, and an empty one as none.
            raise web.HTTPNotFound(text="")
        return instance

    def _running(self, request: web.Request) -> Instance:
        instance = self._found(request)
        if instance.has_ended:
            raise web.HTTPGone(text="")
        return instance


def _entity_of(request: web.Request) -> str:
    return encodable(entity_id(request.match_info["name"], request.match_info["key"]))


def _refused(text: str) -> web.Response:
    """Return a 400; the library's client reads its `ExceptionMessage`."""
    return web.json_response({"Message": text, "ExceptionMessage": text}, status=400)


def _complaint(instance_id: str) -> str | None:
    if instance_id.startswith("@") or instance_id != encodable(instance_id):
        return "An instance id must be text, and must not start with @, as entities do."
    if len(instance_id) > _LONGEST_ID or _FORBIDDEN_IN_ID.search(instance_id):
        return f"An instance id has at most {_LONGEST_ID} characters, none of them / \\ # ?."
    return None


async def _json_body(request: web.Request) -> str | None:
    """Return the body as JSON in a form of our own, None for an empty one, or raise a 400."""
    try:
        text = (await request.read()).decode()
        return json.dumps(json.loads(text)) if text.strip() else None
    except (ValueError, RecursionError) as error:
        complaint = json.dumps(
            dict.fromkeys(("Message", "ExceptionMessage"), "Invalid JSON content")
        )
        raise web.HTTPBadRequest(text=complaint, content_type="application/json") from error


def _flag(request: web.Request, name: str, *, default: bool) -> bool:
    return {"true": True, "false": False}.get(request.query.get(name, "").lower(), default)


def _filter(request: web.Request) -> Callable[[Instance], bool]:
    """Return what the query asks of an instance, or raise a 400."""
    query = request.query
    try:
        begin, end = (_moment(query.get(f"createdTime{end}")) for end in ("From", "To"))
    except ValueError as error:
        raise web.HTTPBadRequest(text="createdTimeFrom and createdTimeTo are times") from error
    statuses = set(filter(None, ",".join(query.getall("runtimeStatus", [])).split(",")))
    prefix = query.get("instanceIdPrefix", "")

    def fits(instance: Instance) -> bool:
        return (
            (begin is None or instance.created >= begin)
            and (end is None or instance.created <= end)
            and (not statuses or instance.status in statuses)
            and instance.id.startswith(prefix)
        )

    return fits


def _moment(text: str | None) -> datetime | None:
    if not text:
        return None
    moment = datetime.fromisoformat(text.replace(" ", "+"))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
