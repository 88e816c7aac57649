"""Queues from `servicebus.json`, in the config format of Microsoft's emulator.

Whatever this emulator does not know or cannot do is refused, with the file, the place in it, the
value and the remedy. Lock durations may be shorter than the service's five seconds.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from devstack.service_bus.messages import QueueSettings

_DURATION = re.compile(
    r"P(?=\d|T\d)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,258}[A-Za-z0-9])?")
_LONGEST_LOCK = 300_000
#: From here on a duration means "for ever", as .NET's TimeSpan.MaxValue does.
_FOR_EVER = 10_675_199 * 86_400_000


class ConfigurationError(Exception):
    """The configuration cannot be used. The message says where, why and what to do."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's name and queues."""

    name: str
    queues: tuple[QueueSettings, ...]


def load(path: Path) -> Namespace:
    """Read and check the configuration at `path`."""
    try:
        return _namespace(_Place(path, "", json.loads(path.read_text(encoding="utf-8"))))
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); give --config a readable file."
        raise ConfigurationError(msg) from error
    except ValueError as error:
        msg = f"{path}: is not JSON ({error}); correct it."
        raise ConfigurationError(msg) from error
    except RecursionError as error:
        msg = f"{path}: is nested too deeply; write one UserConfig with a namespace and its queues."
        raise ConfigurationError(msg) from error


@dataclass(frozen=True, slots=True)
class _Place:
    """A value, and where in which file it stands."""

    file: Path
    path: str
    value: object

    def refuse(self, remedy: str) -> NoReturn:
        shown = json.dumps(self.value)
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."  # noqa: PLR2004 - one line's worth
        msg = f"{self.file}: {self.path or 'the whole'} is {shown}: {remedy}"
        raise ConfigurationError(msg)

    def members(self, known: set[str]) -> dict[str, "_Place"]:
        if not isinstance(self.value, dict):
            self.refuse("write an object here.")
        for key in self.value:
            if key not in known:
                path = f"{self.path}.{key}" if self.path else key
                place = _Place(self.file, path, self.value[key])
                place.refuse(f"unknown key; remove it or use one of {_listed(known)}.")
        prefix = f"{self.path}." if self.path else ""
        return {k: _Place(self.file, prefix + k, v) for k, v in self.value.items()}

    def elements(self) -> list["_Place"]:
        if not isinstance(self.value, list):
            self.refuse("write a list here.")
        return [_Place(self.file, f"{self.path}[{i}]", v) for i, v in enumerate(self.value)]

    def required(self, members: dict[str, "_Place"], key: str) -> "_Place":
        if key not in members:
            self.refuse(f"add the key {key}.")
        return members[key]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _namespace(root: _Place) -> Namespace:
    user = root.required(root.members({"UserConfig"}), "UserConfig")
    sections = user.members({"Namespaces", "Logging"})
    namespaces = user.required(sections, "Namespaces").elements()
    if len(namespaces) != 1:
        place = sections["Namespaces"]
        place.refuse("declare exactly one namespace.")
    (namespace,) = namespaces
    members = namespace.members({"Name", "Queues", "Topics"})
    if "Topics" in members and members["Topics"].value:
        members["Topics"].refuse("topics are not implemented; use queues.")
    queues = [_queue(place) for place in namespace.required(members, "Queues").elements()]
    names = [queue.name.lower() for queue in queues]
    for name in names:
        if names.count(name) > 1:
            place = _Place(root.file, members["Queues"].path, name)
            place.refuse("the name is taken twice; rename one queue.")
    return Namespace(_text(namespace.required(members, "Name")), tuple(queues))


def _queue(place: _Place) -> QueueSettings:
    members = place.members({"Name", "Properties"})
    name = place.required(members, "Name")
    if not _NAME.fullmatch(_text(name)):
        name.refuse(
            "use up to 260 letters, digits, '.', '-', '_' and '/', "
            "with a letter or digit at both ends."
        )
    found: dict[str, object] = {}
    if "Properties" in members:
        found = {
            key: _PROPERTIES[key](value)
            for key, value in members["Properties"].members(set(_PROPERTIES)).items()
        }
    window = found.get("DuplicateDetectionHistoryTimeWindow", 600_000)
    return QueueSettings(
        name=_text(name),
        lock_duration=_whole(found.get("LockDuration", 60_000)),
        max_delivery_count=_whole(found.get("MaxDeliveryCount", 10)),
        default_ttl=_optional(found.get("DefaultMessageTimeToLive")),
        dead_letter_expired=bool(found.get("DeadLetteringOnMessageExpiration")),
        duplicate_window=_optional(window) if found.get("RequiresDuplicateDetection") else None,
    )


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value


def _optional(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(place: _Place) -> str:
    if not isinstance(place.value, str) or not place.value:
        place.refuse("write a name here.")
    return place.value


def _flag(place: _Place) -> bool:
    if not isinstance(place.value, bool):
        place.refuse("write true or false.")
    return place.value


def _count(place: _Place) -> int:
    value = place.value
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 2000:  # noqa: PLR2004 - the service's limit
        place.refuse("write a whole number from 1 to 2000.")
    return value


def _duration(place: _Place) -> int | None:
    found = _DURATION.fullmatch(place.value) if isinstance(place.value, str) else None
    if found is None:
        place.refuse("write an ISO 8601 duration such as PT30S or P14D.")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    milliseconds = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000
    if milliseconds >= _FOR_EVER:
        return None
    if round(milliseconds) <= 0:
        place.refuse("write a duration above zero.")
    return round(milliseconds)


def _lock_duration(place: _Place) -> int:
    duration = _duration(place)
    if duration is None or duration > _LONGEST_LOCK:
        place.refuse("a lock holds five minutes at most; write PT5M or less.")
    return duration


def _not_implemented(feature: str, off: object) -> Callable[[_Place], None]:
    def check(place: _Place) -> None:
        if place.value not in (off, None):
            shown = json.dumps(off)
            place.refuse(f"{feature} not implemented; remove it or write {shown}.")

    return check


_PROPERTIES: dict[str, Callable[[_Place], object]] = {
    "DeadLetteringOnMessageExpiration": _flag,
    "DefaultMessageTimeToLive": _duration,
    "DuplicateDetectionHistoryTimeWindow": _duration,
    "ForwardDeadLetteredMessagesTo": _not_implemented("forwarding is", ""),
    "ForwardTo": _not_implemented("forwarding is", ""),
    "LockDuration": _lock_duration,
    "MaxDeliveryCount": _count,
    "RequiresDuplicateDetection": _flag,
    "RequiresSession": _not_implemented("sessions are", off=False),
}
