"""Shared access signatures: what Service Bus clients prove that they know the key with."""

import base64
import hmac
import re
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

_SCHEME = "SharedAccessSignature "
_SECONDS = re.compile(r"[0-9]{1,15}")


class UnauthorizedError(Exception):
    """The token does not give access. The message says why and names no key."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token gives access to, and until when (seconds since 1970)."""

    path: str
    expires: int

    def covers(self, path: str, now: float) -> bool:
        """Tell whether this gives access to `path` at `now`."""
        within = not self.path or path == self.path or path.startswith(f"{self.path}/")
        return within and now < self.expires


@dataclass(frozen=True, slots=True)
class AccessKey:
    """The namespace's one key."""

    name: str
    secret: str

    def check(self, token: str, now: float) -> Grant:
        """Verify `token` and return what it grants."""
        fields = _fields(token)
        resource, expiry = fields["sr"], fields["se"]
        if fields["skn"] != self.name:
            msg = "The token names an unknown key."
            raise UnauthorizedError(msg)
        expected = hmac.digest(self.secret.encode(), f"{resource}\n{expiry}".encode(), "sha256")
        if not hmac.compare_digest(base64.b64encode(expected), fields["sig"].encode()):
            msg = "The token's signature does not match the key."
            raise UnauthorizedError(msg)
        if not _SECONDS.fullmatch(expiry) or int(expiry) <= now:
            msg = "The token has expired."
            raise UnauthorizedError(msg)
        return Grant(_loopback_path(unquote(resource)), int(expiry))


def _fields(token: str) -> dict[str, str]:
    if not token.startswith(_SCHEME):
        msg = "The token is no shared access signature."
        raise UnauthorizedError(msg)
    # The resource is signed as it was quoted, so it must not be unquoted before the check.
    fields = dict(parse_qsl(token[len(_SCHEME) :]))
    quoted = dict(part.partition("=")[::2] for part in token[len(_SCHEME) :].split("&"))
    fields["sr"] = quoted.get("sr", "")
    missing = {"sr", "sig", "se", "skn"} - {name for name, value in fields.items() if value}
    if missing:
        msg = f"The token lacks {', '.join(sorted(missing))}."
        raise UnauthorizedError(msg)
    return fields


def _loopback_path(resource: str) -> str:
    try:
        host = urlsplit(resource).hostname or ""
    except ValueError as error:
        msg = "The token's resource is no URI."
        raise UnauthorizedError(msg) from error
    if host != "localhost" and not host.startswith("127."):
        msg = f"The token is for the host '{host}', not for this emulator."
        raise UnauthorizedError(msg)
    return path_of(resource)


def path_of(resource: str) -> str:
    """Return the entity's path in a resource URI or an AMQP address, in lower case."""
    path = resource
    with suppress(ValueError):  # no URI: the path of nothing that there is
        path = urlsplit(resource).path if "://" in resource else resource
    return path.strip("/").lower()
