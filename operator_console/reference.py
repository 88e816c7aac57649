"""The configuration reference: the JSON Schemas of the files as a page for people."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_console.json_schemas import schemas_by_kind

_INTRODUCTION = """\
# Configuration reference

Every key of every configuration file. `python -m operator_console reference` prints this page
from the models that validate the files: do not edit it. What the keys do together, with examples,
is in [jobs](jobs.md) and [mappings](mapping.md); the app settings are in the
[README](../README.md#settings).

One document a file, in YAML or JSON. The file's name does not matter, its `name` does. Keys that do
not stand here are refused."""

#: A JSON Schema, or a part of one.
_Schema = Mapping[str, Any]

_WORDS = {
    "string": ["text"],
    "integer": ["whole number"],
    "number": ["number"],
    "boolean": ["`true`", "`false`"],
    "null": ["`null`"],
}


def reference() -> str:
    """Return the page, as Markdown, without a newline at its end."""
    chapters = (
        "\n".join(_Chapter(schema.get("$defs", {})).lines(kind.capitalize(), schema))
        for kind, schema in schemas_by_kind().items()
    )
    return "\n\n".join([_INTRODUCTION, *chapters])


@dataclass(frozen=True, slots=True)
class _Chapter:
    """One kind of file. `headings` tells under which heading models are described."""

    definitions: Mapping[str, _Schema]
    headings: dict[tuple[str, ...], str] = field(default_factory=dict)

    def lines(self, heading: str, *forms: _Schema) -> Iterator[str]:
        """Yield a section about an object of one of `forms`, then those about what it holds."""
        yield f"{'##' if ':' not in heading else '###'} {heading}"
        below = [
            models
            for form in forms
            for key, part in form["properties"].items()
            if (models := self._found(f"{heading}: {key}", part))
        ]
        yield from self._forms(forms)
        for models in below:
            yield ""
            yield from self.lines(self.headings[models], *map(self.definitions.__getitem__, models))

    def _forms(self, forms: Sequence[_Schema]) -> Iterator[str]:
        shared = set.intersection(*(set(form["properties"]) for form in forms))
        if len(forms) > 1 and shared:
            yield from self._one_of(forms, shared)
            return
        if len(forms) > 1:
            yield from ("", f"One of {len(forms)} forms:")
        for form in forms:
            yield from self._form(form)

    def _found(self, heading: str, part: _Schema) -> tuple[str, ...]:
        """Return the models that `part` holds where no section tells of them yet."""
        models = tuple(self._models(part))
        if not models or models in self.headings:
            return ()
        self.headings[models] = heading
        return models

    def _models(self, part: _Schema) -> Iterator[str]:
        """Yield the names of the objects that `part` holds."""
        if name := _name(part):
            if "properties" in self.definitions[name]:
                yield name
            return
        for inner in _inner(part):
            yield from self._models(inner)

    def _form(self, form: _Schema) -> Iterator[str]:
        """Yield what an object is, and a row for each of its keys."""
        yield from ("", form["description"], "")
        yield from _table("key", "type", "default", "limits", "meaning")
        for key, part in form["properties"].items():
            default = "required" if key in form.get("required", ()) else _default(part)
            yield _row(
                f"`{key}`", self._type(part), default, _limits(part), part.get("description", "")
            )

    def _one_of(self, forms: Iterable[_Schema], shared: set[str]) -> Iterator[str]:
        """Yield the rows of forms that differ in one key, whose meaning is that of its form."""
        rows: dict[str, str] = {}
        for form in forms:
            for key, part in form["properties"].items():
                meaning = part["description"] if key in shared else form["description"]
                rows[key] = _row(f"`{key}`", self._type(part), meaning)
        names = " and ".join(f"`{key}`" for key in rows if key in shared)
        yield from ("", f"Each has {names} and exactly one of the other keys.", "")
        yield from _table("key", "type", "meaning")
        yield from rows.values()

    def _type(self, part: _Schema) -> str:
        words = list(dict.fromkeys(self._words(part)))
        if "number" in words:
            words = [word for word in words if word != "whole number"]
        if part.get("default", ...) is None:  # which says that the key may be left out
            words = [word for word in words if word != "`null`"]
        return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)

    def _words(self, part: _Schema) -> Iterator[str]:
        """Yield what a value may be, in words."""
        if models := tuple(self._models(part)):
            yield _collected(part) + _link(self.headings[models])
        elif name := _name(part):
            yield from self._words(self.definitions[name])
        elif "enum" in part or "const" in part:
            yield from (f"`{value}`" for value in part.get("enum", [part.get("const")]))
        elif collected := _collected(part):
            [inner] = _inner(part)
            yield collected + self._type(inner)
        elif alternatives := list(_inner(part)):
            for alternative in alternatives:
                yield from self._words(alternative)
        else:
            yield from ["duration"] if part.get("format") == "duration" else _WORDS[part["type"]]


def _name(part: _Schema) -> str | None:
    """Return the name of the definition that `part` refers to."""
    reference_: str | None = part.get("$ref")
    return reference_.rpartition("/")[2] if reference_ else None


def _inner(part: _Schema) -> Iterator[_Schema]:
    """Yield what `part` consists of."""
    yield from (*part.get("anyOf", ()), *part.get("oneOf", ()))
    yield from (part[key] for key in ("items", "additionalProperties") if key in part)


def _collected(part: _Schema) -> str:
    return {"array": "list of ", "object": "map of "}.get(part.get("type", ""), "")


def _default(part: _Schema) -> str:
    value = part.get("default")
    if value is None or value in ([], {}):
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _limits(part: _Schema) -> str:
    """Say how long, how many or how much; of an optional value too."""
    known = {key: value for each in (part, *part.get("anyOf", ())) for key, value in each.items()}
    found = (text.format(**known) for keys, text in _LIMITS if keys <= known.keys())
    return next(found, "")


_LIMITS = (
    ({"minLength", "maxLength"}, "{minLength} to {maxLength} characters"),
    ({"minLength"}, "{minLength} character or more"),
    ({"minItems"}, "{minItems} or more"),
    ({"minProperties"}, "{minProperties} or more"),
    ({"minimum", "maximum"}, "{minimum} to {maximum}"),
)


def _link(heading: str) -> str:
    # As GitHub makes anchors of headings.
    anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
    return f"[{heading.rpartition(': ')[2]}](#{anchor})"


def _table(*headers: str) -> tuple[str, str]:
    return _row(*headers), "|" + "---|" * len(headers)


def _row(*cells: str) -> str:
    texts = (" ".join(cell.replace("|", "\\|").split()) for cell in cells)
    return "| " + " | ".join(texts) + " |"
