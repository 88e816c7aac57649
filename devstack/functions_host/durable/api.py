"""The durable HTTP API: under a key for everyone, and without one for the library's client."""

import logging
import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

from aiohttp import web

from devstack.functions_host.durable.addresses import WEBHOOKS, Addresses
from devstack.functions_host.durable.events import EventType, event
from devstack.functions_host.durable.functions import Catalog, entity_id
from devstack.functions_host.durable.instances import Instance, Operation
from devstack.functions_host.durable.requests import (
    RefusedError,
    check_id,
    flag,
    instance_filter,
    json_body,
    signal_input,
)
from devstack.functions_host.durable.scheduler import Scheduler
from devstack.functions_host.durable.status import history_of, status_of, value_of
from devstack.functions_host.durable.store import AlreadyRunsError, Store
from devstack.functions_host.frames import encodable

_LOG = logging.getLogger("functions_host.durable")

Handler = Callable[[web.Request], Awaitable[web.Response]]

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
        for path, handlers in self._routes().items():
            answer = self._answering(handlers)
            router.add_route("*", f"{WEBHOOKS}{path}", _guarded(answer, admit))
            router.add_route("*", f"{self._addresses.rpc_path}{path}", answer)

    def _routes(self) -> dict[str, dict[str, Handler]]:
        one = "/instances/{id}"
        many: dict[str, Handler] = {"GET": self._list, "DELETE": self._purge_many}
        return {
            "/orchestrators/{name}": {"POST": self._start},
            "/orchestrators/{name}/{id}": {"POST": self._start},
            "/instances": many,
            "/instances/": many,
            one: {"GET": self._status, "DELETE": self._purge},
            f"{one}/terminate": {"POST": self._terminate},
            f"{one}/raiseEvent/{{event}}": {"POST": self._raise},
            **{f"{one}/{verb}": {"POST": self._not_here} for verb in _NOT_HERE},
            "/entities/{name}/{key}": {"GET": self._entity, "POST": self._signal},
        }

    def _answering(self, handlers: Mapping[str, Handler]) -> Handler:
        """Return the handler of one path, which says in words what cannot be done."""

        async def answer(request: web.Request) -> web.Response:
            if request.method not in handlers:
                raise web.HTTPMethodNotAllowed(request.method, handlers)
            try:
                return await handlers[request.method](request)
            except RefusedError as error:
                return _refused(str(error))
            except sqlite3.Error as error:
                return _refused(self._store.trouble.met(error), status=503)

        return answer

    async def _start(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        instance_id = request.match_info.get("id") or uuid.uuid4().hex
        raw_input = await json_body(request)
        if self._catalog.orchestrator(name) is None:
            return _refused(f"The function '{name}' doesn't exist or is not an orchestrator.")
        check_id(instance_id)
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
        show_input = flag(request, "showInput", default=True)
        facts = status_of(instance, show_input=show_input)
        if flag(request, "showHistory", default=False):
            output = flag(request, "showHistoryOutput", default=False)
            events = self._store.history(instance.id)
            facts["historyEvents"] = history_of(events, show_input=show_input, show_output=output)
        if not instance.has_ended:
            url = self._addresses.management(instance.id)["statusQueryGetUri"]
            headers = {"Location": url, "Retry-After": "5"}
            return web.json_response(facts, status=202, headers=headers)
        as_error = flag(request, "returnInternalServerErrorOnFailure", default=False)
        failed = instance.status == "Failed" and as_error
        return web.json_response(facts, status=500 if failed else 200)

    async def _list(self, request: web.Request) -> web.Response:
        show_input = flag(request, "showInput", default=True)
        chosen = filter(instance_filter(request), self._store.instances())
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
        name, text = request.match_info["event"], await json_body(request) or "null"
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
        chosen = filter(instance_filter(request), self._store.instances())
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
        return web.json_response(value_of(state))

    async def _signal(self, request: web.Request) -> web.Response:
        entity = _entity_of(request)
        if not self._catalog.has_entity(entity):
            return _refused(f"The entity '{entity}' has no entity function in this app.")
        text = await signal_input(request)
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


def _guarded(handler: Handler, admit: Callable[[web.Request], bool]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        if not admit(request):
            raise web.HTTPUnauthorized
        return await handler(request)

    return answer


def _refused(text: str, status: int = 400) -> web.Response:
    """Return a refusal; the library's client reads its `ExceptionMessage`."""
    return web.json_response({"Message": text, "ExceptionMessage": text}, status=status)
