"""What a request to the durable API says: its body, its filters, its ids; or why it is refused."""

import json
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NoReturn

from aiohttp import web

from devstack.functions_host.durable.instances import Instance
from devstack.functions_host.frames import encodable

_LONGEST_ID = 100
_FORBIDDEN_IN_ID = re.compile(r"[/\\#?\x00-\x1f\x7f-\x9f]")

#: The extension's names. Not all of them come about here, but a query may ask for them.
_STATUSES = (
    "Running",
    "Completed",
    "ContinuedAsNew",
    "Failed",
    "Canceled",
    "Terminated",
    "Pending",
    "Suspended",
    "Unknown",
)
_BY_LOWER_CASE = {status.lower(): status for status in _STATUSES}


class RefusedError(Exception):
    """The request cannot be; the message says why."""


def check_id(instance_id: str) -> None:
    """Raise RefusedError where no instance may have this id."""
    if instance_id.startswith("@") or instance_id != encodable(instance_id):
        msg = "An instance id must be text, and must not start with @, as entities do."
        raise RefusedError(msg)
    if instance_id in {".", ".."}:
        msg = f"'{instance_id}' cannot be an instance id: clients take it out of a URL's path."
        raise RefusedError(msg)
    if len(instance_id) > _LONGEST_ID or _FORBIDDEN_IN_ID.search(instance_id):
        msg = f"An instance id has at most {_LONGEST_ID} characters, none of them / \\ # ?."
        raise RefusedError(msg)


async def json_body(request: web.Request) -> str | None:
    """Return the body as JSON, written our way, None for an empty one; or raise RefusedError."""
    text = await _text(request)
    return parse(text) if text.strip() else None


def parse(text: str) -> str:
    """Return the JSON in `text`, written our way, or raise RefusedError.

    Python would read NaN and infinities, and write what no other parser reads.
    """
    try:
        return json.dumps(json.loads(text, parse_constant=_no_number, parse_float=_finite))
    except (ValueError, RecursionError) as error:
        msg = f"Invalid JSON content ({type(error).__name__})"
        raise RefusedError(msg) from error


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    msg = f"Invalid JSON content: {text[:20]} is no number in JSON."
    raise RefusedError(msg)


async def signal_input(request: web.Request) -> str:
    """Return an operation's input from the body of a signal, or raise RefusedError.

    As in the extension, whose input the library reads as JSON twice: a body of the type
    application/json is the input as it is, any other body is the text in it.
    """
    text = await _text(request)
    if not text.strip():
        return "null"
    if request.content_type != "application/json":
        parse(text)
        return json.dumps(text)
    value = parse(text)
    if value != "null" and not _holds_json(json.loads(value)):
        msg = (
            "The library reads a signal's input as JSON in JSON: send the body without the content "
            'type application/json, or as a string that holds JSON: "{\\"a\\": 1}".'
        )
        raise RefusedError(msg)
    return value


def _holds_json(value: object) -> bool:
    try:
        return isinstance(value, str) and json.loads(value) is not ...
    except (ValueError, RecursionError):
        return False


async def _text(request: web.Request) -> str:
    try:
        return (await request.read()).decode()
    except UnicodeDecodeError as error:
        msg = "Invalid JSON content: the body is no UTF-8."
        raise RefusedError(msg) from error


def flag(request: web.Request, name: str, *, default: bool) -> bool:
    """Return what the query says of `name`."""
    return {"true": True, "false": False}.get(request.query.get(name, "").lower(), default)


def instance_filter(request: web.Request) -> Callable[[Instance], bool]:
    """Return what the query asks of an instance, or raise RefusedError."""
    begin, end = (_moment(request, f"createdTime{end}") for end in ("From", "To"))
    statuses = _statuses(request.query.getall("runtimeStatus", []))
    prefix = request.query.get("instanceIdPrefix", "")

    def fits(instance: Instance) -> bool:
        return (
            (begin is None or instance.created >= begin)
            and (end is None or instance.created <= end)
            and (not statuses or instance.status in statuses)
            and instance.id.startswith(prefix)
        )

    return fits


def _statuses(texts: list[str]) -> set[str]:
    names = [name.strip() for text in texts for name in text.split(",")]
    for name in names:
        if name.lower() not in _BY_LOWER_CASE:
            msg = f"runtimeStatus: '{name}' is no status; there are {', '.join(_STATUSES)}."
            raise RefusedError(msg)
    return {_BY_LOWER_CASE[name.lower()] for name in names}


def _moment(request: web.Request, name: str) -> datetime | None:
    text = request.query.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError as error:
        msg = f"{name}: '{text}' is no time; give one like 2030-01-31T12:00:00Z, or leave it out."
        raise RefusedError(msg) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
