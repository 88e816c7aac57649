"""HTTP triggers: a request becomes an invocation, its outcome the answer."""

import logging
import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

from aiohttp import web
from multidict import CIMultiDict, MultiMapping

from devstack.functions_host.errors import SettingsError
from devstack.functions_host.invocations import Function, Outcome, Returned, run
from devstack.functions_host.keys import AuthLevel
from devstack.functions_host.routes import Route, parse_route
from devstack.functions_host.settings import resolve_names
from devstack.functions_host.triggers import Services

_LOG = logging.getLogger("functions_host.http")

#: The platform cuts every answer off here, whatever the plan; the function runs on.
HTTP_RESPONSE_LIMIT = timedelta(seconds=230)

_LEVELS = {"anonymous", "function", "admin"}
#: These describe a transfer, which is the server's to make.
_HOP_HEADERS = {"content-length", "transfer-encoding", "connection"}
#: Below are interim answers, after which a client waits for the final one.
_STATUSES = range(200, 1000)
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN = re.compile(r"[\r\n\0]")


class HttpTrigger:
    """Answers requests to one route with one function."""

    def __init__(self, function: Function, binding: dict[str, Any], services: Services) -> None:
        self.function = function
        self._argument: str = binding["name"]
        self._worker = services.worker
        self._durable = services.durable
        self.auth_level = _auth_level(function, binding)
        template = binding.get("route") or function.name
        template = resolve_names(template, services.environment, function=function.name)
        self.template = f"{services.settings.route_prefix}/{template.strip('/')}".strip("/")
        self.route = _parsed(function, self.template, binding.get("methods") or ())

    async def start(self) -> None:
        """Nothing to do: the front listens for all HTTP triggers."""

    def stop_receiving(self) -> None:
        """Nothing to do: the front refuses for all HTTP triggers."""

    async def close(self) -> None:
        """Nothing to do: the front closes for all HTTP triggers."""

    def check_by_hand(self) -> None:
        """Pass: an HTTP function can always be started by hand."""

    async def run_by_hand(self, text: str) -> None:
        """Run with `text` as the request's body; the answer goes nowhere."""
        methods = self.route.methods
        method = "POST" if not methods or "POST" in methods else min(methods)
        url = f"http://localhost/{self.template}"
        await self._run(method, url, text.encode(), {}, {}, {})

    async def answer(self, request: web.Request, parameters: dict[str, str]) -> web.Response:
        """Run the function for `request` and return what it answered."""
        outcome = await self._run(
            request.method,
            decoded(str(request.url)),
            await request.read(),
            joined(request.headers),
            joined(request.query),
            {name: decoded(value) for name, value in parameters.items()},
        )
        return to_response(outcome, self.function.name)

    async def _run(  # noqa: PLR0913, PLR0917 - a request has these parts
        self,
        method: str,
        url: str,
        body: bytes,
        headers: dict[str, str],
        query: dict[str, str],
        parameters: dict[str, str],
    ) -> Outcome:
        inputs = {
            "argument": self._argument,
            "kind": "http",
            "method": method,
            "url": url,
            "headers": headers,
            "query": query,
            "params": parameters,
            **self._durable.inputs(self.function),
        }
        return await run(self._worker, self.function, inputs, body)


def joined(values: MultiMapping[str]) -> dict[str, str]:
    """Return each name once, several values joined by a comma as .NET does."""
    # Headers come with names of a class of its own, which JSON does not take.
    return {decoded(name): decoded(",".join(values.getall(name))) for name in values}


def decoded(text: str) -> str:
    """Return `text`, which the server read as UTF-8, as Latin-1 where its bytes were no UTF-8."""
    if text.isascii():
        return str(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="surrogateescape").decode("latin-1")
    return str(text)


def to_response(outcome: Outcome, function: str) -> web.Response:
    """Return the answer of an outcome of `function`. A failure says nothing of what failed."""
    if not isinstance(outcome, Returned):
        return web.Response(status=500)
    if outcome.status is None:
        return web.Response(status=204)
    if (complaint := _unsendable(outcome)) is not None:
        _LOG.error("%s answered with %s, which HTTP has not: 500 instead", function, complaint)
        return web.Response(status=500)
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in outcome.headers:
        if name.lower() not in _HOP_HEADERS:
            headers.add(name, value)
    if "Content-Type" not in headers:
        headers["Content-Type"] = "text/plain; charset=utf-8"
    return web.Response(status=outcome.status, headers=headers, body=outcome.body)


def _unsendable(outcome: Returned) -> str | None:
    if outcome.status not in _STATUSES:
        return f"status {outcome.status}"
    for name, value in outcome.headers:
        if not _FIELD_NAME.fullmatch(name) or _FORBIDDEN.search(value):
            return "a malformed header"
    return None


def _auth_level(function: Function, binding: dict[str, Any]) -> AuthLevel:
    level = str(binding.get("authLevel") or "function").lower()
    if level not in _LEVELS:
        msg = (
            f"function '{function.name}': the auth level '{level}' is not supported; use function."
        )
        raise SettingsError(msg)
    return cast("AuthLevel", level)


def _parsed(function: Function, template: str, methods: Iterable[str]) -> Route:
    try:
        return parse_route(template, methods)
    except ValueError as error:
        msg = f"function '{function.name}': the route '{template}' is not supported: {error}."
        raise SettingsError(msg) from error
