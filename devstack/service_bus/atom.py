"""The Atom API, read only: queue properties and run-time counts.

Whatever would change something, and every path that is not a queue's, is refused by name.
"""

from datetime import UTC, datetime
from http import HTTPStatus
from xml.sax.saxutils import escape, quoteattr

from aiohttp import web

from devstack.service_bus.amqp_sections import MAX_MESSAGE
from devstack.service_bus.broker import Broker
from devstack.service_bus.queue import Queue
from devstack.service_bus.sas import UnauthorizedError

_ATOM = "http://www.w3.org/2005/Atom"
_SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
_DETAILS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
_FOR_EVER = "P10675199DT2H48M5.4775807S"
_PAGE = 100


class AtomApi:
    """Answers the Atom API's requests for one namespace."""

    def __init__(self, broker: Broker, namespace: str) -> None:
        self._broker = broker
        self._namespace = namespace
        # The JavaScript SDK reads no counts without the times that the service always gives.
        self._started = datetime.fromtimestamp(broker.clock(), UTC).isoformat()

    def application(self) -> web.Application:
        """Return the web application."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"].strip("/")
        try:
            self._authorize(request, path)
        except UnauthorizedError as error:
            return _failure(HTTPStatus.UNAUTHORIZED, str(error))
        if request.method != "GET":
            return _failure(
                HTTPStatus.NOT_IMPLEMENTED,
                f"{request.method} /{path} is not implemented: queues come from the configuration.",
            )
        return self._get(request, path)

    def _get(self, request: web.Request, path: str) -> web.Response:
        if path.lower() == "$resources/queues":
            return self._list(request)
        if path.lower() == "$namespaceinfo":
            return _document(self._namespace_entry(request))
        for name, queue in self._broker.queues.items():
            if name.lower() == path.lower():
                return _document(_entry(request, name, self._described(queue)))
        if "$" in path or "/" in path:
            return _failure(HTTPStatus.NOT_IMPLEMENTED, f"GET /{path} is not implemented.")
        return _failure(HTTPStatus.NOT_FOUND, f"There is no queue '{path}'.")

    def _authorize(self, request: web.Request, path: str) -> None:
        now = self._broker.clock()
        grant = self._broker.key.check(request.headers.get("Authorization", ""), now)
        if not grant.covers(path.lower(), now):
            msg = f"The token is for '{grant.path}', not for '{path}'."
            raise UnauthorizedError(msg)

    def _list(self, request: web.Request) -> web.Response:
        skip = _number(request.query.get("$skip"), 0)
        top = _number(request.query.get("$top"), _PAGE)
        queues = list(self._broker.queues.items())
        links = f"<link rel='self' href={quoteattr(str(request.url))}/>"
        if skip + top < len(queues):
            following = request.url.update_query({"$skip": str(skip + top), "$top": str(top)})
            links += f"<link rel='next' href={quoteattr(str(following))}/>"
        entries = (
            _entry(request, name, self._described(queue))
            for name, queue in queues[skip : skip + top]
        )
        return _document(
            f"<feed xmlns='{_ATOM}'><title type='text'>Queues</title>"
            f"<id>{escape(str(request.url))}</id>{links}{''.join(entries)}</feed>"
        )

    def _described(self, queue: Queue) -> str:
        # Counting looks at the time, not for expired messages: only receiving does that.
        queue.advance(self._broker.now())
        counts, dead = queue.counts(), queue.dead_letters.counts()
        details = {
            "ActiveMessageCount": counts.active,
            "DeadLetterMessageCount": dead.active,
            "ScheduledMessageCount": counts.scheduled,
            "TransferMessageCount": 0,
            "TransferDeadLetterMessageCount": 0,
        }
        encoded = "".join(f"<d:{name}>{n}</d:{name}>" for name, n in details.items())
        fields = _settings(queue) | {
            "SizeInBytes": str(counts.size + dead.size),
            "MessageCount": str(len(queue) + len(queue.dead_letters)),
            "Status": "Active",
            "EntityAvailabilityStatus": "Available",
            **dict.fromkeys(("CreatedAt", "UpdatedAt", "AccessedAt"), self._started),
        }
        body = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        return (
            # The JavaScript SDK looks for the prefix on this very element.
            f"<QueueDescription xmlns='{_SERVICE_BUS}'>{body}"
            f"<CountDetails xmlns:d='{_DETAILS}'>{encoded}</CountDetails></QueueDescription>"
        )

    def _namespace_entry(self, request: web.Request) -> str:
        name = escape(self._namespace)
        return _entry(
            request,
            self._namespace,
            f"<NamespaceInfo xmlns='{_SERVICE_BUS}'><CreatedTime>{self._started}</CreatedTime>"
            f"<MessagingSKU>Standard</MessagingSKU><ModifiedTime>{self._started}</ModifiedTime>"
            f"<Name>{name}</Name><NamespaceType>Messaging</NamespaceType></NamespaceInfo>",
        )


def _settings(queue: Queue) -> dict[str, str]:
    settings = queue.settings
    detects = settings.duplicate_window is not None
    return {
        "LockDuration": duration(settings.lock_duration),
        "MaxSizeInMegabytes": "1024",
        "RequiresDuplicateDetection": _flag(detects),
        "RequiresSession": "false",
        "DefaultMessageTimeToLive": duration(settings.default_ttl),
        "DeadLetteringOnMessageExpiration": _flag(settings.dead_letter_expired),
        "DuplicateDetectionHistoryTimeWindow": duration(settings.duplicate_window or 600_000),
        "MaxDeliveryCount": str(settings.max_delivery_count),
        "EnableBatchedOperations": "true",
        "AutoDeleteOnIdle": _FOR_EVER,
        "EnablePartitioning": "false",
        "EnableExpress": "false",
        "MaxMessageSizeInKilobytes": str(MAX_MESSAGE // 1024),
    }


def duration(milliseconds: int | None) -> str:
    """Write a duration as ISO 8601 has it; None is for ever."""
    if milliseconds is None:
        return _FOR_EVER
    days, rest = divmod(milliseconds, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
    parts = [(hours, f"{hours}H"), (minutes, f"{minutes}M"), (rest, f"{seconds}S")]
    clock = "".join(text for value, text in parts if value)
    return "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")


def _flag(value: bool) -> str:  # noqa: FBT001 - its one argument is the flag
    return "true" if value else "false"


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isdecimal() else default


def _entry(request: web.Request, title: str, content: str) -> str:
    # The JavaScript SDK takes a queue's name from its address.
    address = str(request.url.origin().joinpath(title))
    return (
        f"<entry xmlns='{_ATOM}'><id>{escape(address)}</id>"
        f"<title type='text'>{escape(title)}</title>"
        f"<content type='application/xml'>{content}</content></entry>"
    )


def _document(xml: str) -> web.Response:
    return web.Response(text=xml, content_type="application/atom+xml", charset="utf-8")


def _failure(status: HTTPStatus, detail: str) -> web.Response:
    text = f"<Error><Code>{status.value}</Code><Detail>{escape(detail)}</Detail></Error>"
    return web.Response(status=status, text=text, content_type="application/xml", charset="utf-8")
