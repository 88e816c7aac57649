"""`$cbs`: clients put their tokens here before they attach a link."""

import logging
from typing import TYPE_CHECKING

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.requests import Request, answer, parse
from devstack.service_bus.sas import Grant, UnauthorizedError, path_of

if TYPE_CHECKING:
    from devstack.service_bus.connection import Connection

_LOG = logging.getLogger(__name__)


class TokenDesk:
    """Checks the tokens of one connection."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def answer(self, request: bytes) -> tuple[str, bytes]:
        """Take a token, or say why not."""
        parsed = parse(request)
        status, description = 202, "Accepted"
        try:
            self._connection.permit(self._grant(parsed))
        except UnauthorizedError as error:
            status, description = 401, str(error)
            _LOG.warning("refused a token: %s", error)
        properties = [
            amqp.text("status-code"),
            amqp.integer(status),
            amqp.text("status-description"),
            amqp.text(description),
        ]
        return parsed.reply_to, answer(parsed, properties)

    def _grant(self, request: Request) -> Grant:
        if request.properties.get("operation") != "put-token":
            msg = f"The operation {request.properties.get('operation')!r} is not implemented."
            raise UnauthorizedError(msg)
        # The type is not looked at: the Python SDK calls its signatures "jwt".
        token = amqp.read(request.body)
        broker = self._connection.broker
        grant = broker.key.check(token if isinstance(token, str) else "", broker.clock())
        audience = path_of(request.text("name"))
        if not grant.covers(audience, broker.clock()):
            msg = f"The token is for '{grant.path}', not for '{audience}'."
            raise UnauthorizedError(msg)
        return Grant(audience, grant.expires)
