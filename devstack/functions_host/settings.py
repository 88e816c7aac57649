"""`host.json`, `local.settings.json`, `%NAME%` and connection settings."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from devstack.functions_host.errors import SettingsError
from devstack.functions_host.frames import encodable
from devstack.functions_host.time_span import parse_time_span

DEFAULT_SERVICE_BUS_CONNECTION = "AzureWebJobsServiceBus"

_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 10,
}
_LONGEST_SHOWN = 200
_PLACEHOLDER = re.compile(r"%([^%]*)%")


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What `host.json` says, with the platform's defaults."""

    #: None: unbounded.
    function_timeout: timedelta | None = timedelta(minutes=30)
    log_level: int = logging.INFO
    route_prefix: str = "api"
    auto_complete_messages: bool = True
    max_concurrent_calls: int = 16
    max_auto_lock_renewal: timedelta = timedelta(minutes=5)
    task_hub: str = "LocalHub"
    max_orchestrators: int = 5
    max_activities: int = 10
    max_entities: int = 10
    #: Keys that mean nothing here, as dotted paths.
    ignored: tuple[str, ...] = field(default=())


def _version(value: object) -> None:
    if value != "2.0":
        raise ValueError


def _timeout(value: object) -> timedelta | None:
    return None if value == "-1" else _positive_span(value)


def _span(value: object) -> timedelta:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - every parser of the table says ValueError
    return parse_time_span(value)


def _positive_span(value: object) -> timedelta:
    if (span := _span(value)) <= timedelta(0):
        raise ValueError
    return span


def _level(value: object) -> int:
    if not isinstance(value, str) or value.lower() not in _LEVELS:
        raise ValueError
    return _LEVELS[value.lower()]


def _prefix(value: object) -> str:
    if not isinstance(value, str) or set(value) & set("{}?*%"):
        raise ValueError
    return value.strip("/")


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - every parser of the table says ValueError
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError
    return value


def _no_prefetch(value: object) -> None:
    if value != 0:
        raise ValueError


_HUB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{2,44}")
_HUB_RULE = "3 to 45 letters and digits, a letter first"


def _hub(value: object) -> str:
    if not isinstance(value, str) or not _HUB_NAME.fullmatch(value):
        raise ValueError
    return value


_DURABLE_LIMITS = {
    "Orchestrator": "max_orchestrators",
    "Activity": "max_activities",
    "Entity": "max_entities",
}

#: Path in host.json -> how to read it, the field it fills (None: only checked), what it must be.
_KNOWN: dict[tuple[str, ...], tuple[Callable[[object], object], str | None, str]] = {
    ("version",): (_version, None, 'must be "2.0"'),
    ("functionTimeout",): (_timeout, "function_timeout", 'must be "hh:mm:ss", or "-1" for none'),
    ("logging", "logLevel", "default"): (
        _level,
        "log_level",
        "must be Trace, Debug, Information, Warning, Error, Critical or None",
    ),
    ("extensions", "http", "routePrefix"): (
        _prefix,
        "route_prefix",
        'must be a literal path such as "api", or "" for none',
    ),
    ("extensions", "serviceBus", "autoCompleteMessages"): (
        _flag,
        "auto_complete_messages",
        "must be true or false",
    ),
    ("extensions", "serviceBus", "maxConcurrentCalls"): (
        _count,
        "max_concurrent_calls",
        "must be a whole number from 1",
    ),
    ("extensions", "serviceBus", "maxAutoLockRenewalDuration"): (
        _span,
        "max_auto_lock_renewal",
        'must be "hh:mm:ss"',
    ),
    ("extensions", "serviceBus", "prefetchCount"): (
        _no_prefetch,
        None,
        "must be 0: a prefetched message's lock runs before its function starts",
    ),
    ("extensions", "durableTask", "hubName"): (_hub, "task_hub", f"must be {_HUB_RULE}"),
    **{
        ("extensions", "durableTask", f"maxConcurrent{kind}Functions"): (
            _count,
            name,
            "must be a whole number from 1",
        )
        for kind, name in _DURABLE_LIMITS.items()
    },
}


def load_host_settings(path: Path) -> HostSettings:
    """Return what the file at `path` says; a missing file means every default."""
    document = _read_object(path)
    values: dict[str, Any] = {}
    ignored: list[str] = []
    _walk(path, document, (), values, ignored)
    return HostSettings(**values, ignored=tuple(ignored))


def _walk(
    path: Path,
    node: dict[str, object],
    above: tuple[str, ...],
    values: dict[str, Any],
    ignored: list[str],
) -> None:
    for key, value in node.items():
        place = (*above, key)
        if place in _KNOWN:
            parse, name, demand = _KNOWN[place]
            try:
                parsed = parse(value)
            except ValueError as error:
                msg = f"{path}: {'.'.join(place)} is {_shown(value)}; it {demand}."
                raise SettingsError(msg) from error
            if name is not None:
                values[name] = parsed
        elif any(known[: len(place)] == place for known in _KNOWN):
            if not isinstance(value, dict):
                msg = f"{path}: {'.'.join(place)} is {_shown(value)}; it must be an object."
                raise SettingsError(msg)
            _walk(path, value, place, values, ignored)
        else:
            ignored.append(".".join(place))


def _shown(value: object) -> str:
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError):
        return "too large to show"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def load_local_settings(path: Path) -> dict[str, str]:
    """Return the `Values` of the file at `path`; a missing file means none."""
    document = _read_object(path)
    if document.get("IsEncrypted") is True:
        msg = f"{path}: IsEncrypted is true; decrypt it with 'func settings decrypt'."
        raise SettingsError(msg)
    values = document.get("Values", {})
    if not isinstance(values, dict):
        msg = f"{path}: Values is not an object; write one object of names and texts."
        raise SettingsError(msg)
    for name, value in values.items():
        if not isinstance(value, str):
            msg = f"{path}: Values.{name} is not a text; put it in double quotes."
            raise SettingsError(msg)
        _refuse_what_no_environment_holds(path, name, value)
    return values


def _refuse_what_no_environment_holds(path: Path, name: str, value: str) -> None:
    where = f"{path}: Values.{encodable(name)!r}"
    if not name or "=" in name or "\0" in name:
        msg = f"{where}: an environment variable cannot have this name; take out '=' and NUL."
        raise SettingsError(msg)
    if "\0" in value:
        msg = f"{where} holds a NUL character, which an environment variable cannot; take it out."
        raise SettingsError(msg)
    if encodable(name + value) != name + value:
        msg = f"{where} holds half of a surrogate pair; write the whole character."
        raise SettingsError(msg)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{path}: cannot be read ({type(error).__name__}); make it a readable UTF-8 file."
        raise SettingsError(msg) from error
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        msg = f"{path}: not JSON at line {error.lineno}, column {error.colno} ({error.msg})."
        raise SettingsError(msg) from error
    except (RecursionError, ValueError) as error:
        msg = f"{path}: holds a number or a nesting beyond every limit; make it smaller."
        raise SettingsError(msg) from error
    if not isinstance(document, dict):
        msg = f"{path}: holds no JSON object; write one in braces."
        raise SettingsError(msg)
    return document


def resolve_names(text: str, settings: Mapping[str, str], *, function: str) -> str:
    """Return `text` with every `%NAME%` replaced by its setting."""

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if not settings.get(name):
            msg = (
                f"function '{function}': %{name}% has no value; "
                f"set {name} in the environment or under Values in local.settings.json."
            )
            raise SettingsError(msg)
        return settings[name]

    return _PLACEHOLDER.sub(value_of, text)


def resolve_connection(prefix: str, settings: Mapping[str, str], *, function: str) -> str:
    """Return the connection string that a trigger's `connection` means.

    The platform takes the setting of exactly that name if it is not blank, else the identity
    form `PREFIX__fullyQualifiedNamespace`, which needs Entra and is refused here.
    """
    name = prefix or DEFAULT_SERVICE_BUS_CONNECTION
    if (value := settings.get(name, "").strip()) != "":
        return value
    identity = f"{name}__fullyQualifiedNamespace"
    if settings.get(identity, "").strip():
        msg = (
            f"function '{function}': {identity} asks for an identity connection, which the local "
            f"host has not (no Entra here); set {name} to a connection string."
        )
        raise SettingsError(msg)
    msg = (
        f"function '{function}': the connection '{name}' has no value; set {name} to a connection "
        f"string in the environment or under Values in local.settings.json."
    )
    raise SettingsError(msg)
