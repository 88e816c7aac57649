"""Route templates of HTTP functions: the part of ASP.NET's that we support, by segments."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

_PARAMETER = re.compile(r"\{(?P<rest>\*{0,2})(?P<name>\w+)(?P<kind>:\w+)?(?P<optional>\??)\}")
_INTEGER = re.compile(r"[+-]?\d{1,10}")


class _Segment(NamedTuple):
    #: The literal in lower case, or the parameter's name.
    text: str
    is_parameter: bool = False
    is_integer: bool = False
    is_optional: bool = False
    is_rest: bool = False

    @property
    def vagueness(self) -> int:
        """Order of candidates, as in ASP.NET: literal, typed, free, rest."""
        return self.is_parameter * (2 - self.is_integer + self.is_rest)

    def accepts(self, value: str) -> bool:
        if not self.is_parameter:
            return value.lower() == self.text
        return bool(value) and (not self.is_integer or bool(_INTEGER.fullmatch(value)))


@dataclass(frozen=True, slots=True)
class Route:
    """One template and the methods that it answers; no methods means every method."""

    segments: tuple[_Segment, ...]
    methods: frozenset[str]

    @property
    def vagueness(self) -> tuple[int, ...]:
        """A key that sorts the more specific template first."""
        return tuple(segment.vagueness for segment in self.segments)

    def match(self, path: Sequence[str]) -> dict[str, str] | None:
        """Return the parameters that `path` gives, or None where it does not match."""
        values: dict[str, str] = {}
        for position, segment in enumerate(self.segments):
            if segment.is_rest:
                return values | {segment.text: "/".join(path[position:])}
            if position == len(path):
                return values if segment.is_optional else None
            if not segment.accepts(path[position]):
                return None
            if segment.is_parameter:
                values[segment.text] = path[position]
        return values if len(path) == len(self.segments) else None


def parse_route(template: str, methods: Iterable[str]) -> Route:
    """Return the route that `template` means, or raise ValueError naming what is not supported."""
    texts = [text for text in template.strip("/").split("/") if text]
    segments = tuple(_parse_segment(text) for text in texts)
    for segment in segments[:-1]:
        if segment.is_rest or segment.is_optional:
            msg = f"'{segment.text}' is optional or takes the rest, so it must come last"
            raise ValueError(msg)
    return Route(segments, frozenset(method.upper() for method in methods))


def _parse_segment(text: str) -> _Segment:
    if not set(text) & set("{}"):
        return _Segment(text.lower())
    match = _PARAMETER.fullmatch(text)
    if match is None:
        msg = f"'{text}': a parameter must fill its segment, without defaults or several types"
        raise ValueError(msg)
    if match["kind"] not in (None, ":int") or (match["kind"] and match["rest"]):
        msg = f"'{text}': the only constraint here is ':int'"
        raise ValueError(msg)
    return _Segment(
        match["name"],
        is_parameter=True,
        is_integer=match["kind"] is not None,
        is_optional=match["optional"] == "?",
        is_rest=match["rest"] != "",
    )


def split_path(raw_path: str) -> list[str]:
    """Return the decoded segments of a path. An encoded slash stays encoded, as in Azure's host."""
    texts = re.sub("%2[fF]", "%252F", raw_path).strip("/").split("/")
    return [unquote(text) for text in texts if text]


class Match[T](NamedTuple):
    """The answer of a table: a target with its parameters, or else the methods that exist."""

    target: T | None
    parameters: dict[str, str]
    #: Empty where no route has this path.
    allowed: frozenset[str]


class RouteTable[T]:
    """Finds the target of a request: the most specific route that has its method."""

    def __init__(self, entries: Iterable[tuple[Route, T]]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry[0].vagueness)

    def find(self, method: str, path: Sequence[str]) -> Match[T]:
        """Return the match of `path`; its target is None where path or method has no route."""
        allowed: frozenset[str] = frozenset()
        for route, target in self._entries:
            parameters = route.match(path)
            if parameters is None:
                continue
            if not route.methods or method in route.methods:
                return Match(target, parameters, allowed)
            allowed |= route.methods
        return Match(None, {}, allowed)
