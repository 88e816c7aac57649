"""Reads configuration files: YAML or JSON, one document each, in three folders."""

import json
import re
from collections import Counter
from collections.abc import Mapping as Files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from models.document import Document
from models.job import Job
from models.mapping import Mapping
from models.operation_rules import UNQUOTED

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

#: What lies in which folder; what others refer to stands before them.
_MODELS: dict[str, type[Document]] = {
    "connections": Connection,
    "mappings": Mapping,
    "jobs": Job,
}

FOLDERS = tuple(_MODELS)

FILE_TYPES = (".yaml", ".yml", ".json")


def read_all(origin: str, contents: Files[str, bytes]) -> Configuration:
    """Validate a whole set of files by relative name; `origin` stands before names in errors.

    Raise ConfigurationError with every fault of every file, a line each.
    """
    documents: dict[str, list[Any]] = {folder: [] for folder in FOLDERS}
    faults: list[str] = []
    for name in sorted(contents):
        folder = PurePosixPath(name).parts[0]
        if folder not in documents or not name.endswith(FILE_TYPES):
            continue
        try:
            documents[folder].append(
                read_document(f"{origin}/{name}", contents[name], _MODELS[folder])
            )
        except ConfigurationError as error:
            faults.append(str(error))
    if faults:
        raise ConfigurationError("\n".join(faults))
    return Configuration.of(*documents.values())


def read_document[D: Document](name: str, content: bytes, model: type[D]) -> D:
    """Validate one file; raise ConfigurationError with a line for each fault."""
    document = _parse(name, content)
    if not isinstance(document, dict):
        what = "is empty" if document is None else "holds no keys"
        msg = f"{name}: document: the file {what}; write `key: value` lines"
        raise ConfigurationError(msg)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        faults = describe_faults(error, quote_values=model is not Connection)
        # The cause would quote the input, which may be a secret in the wrong place.
        raise ConfigurationError("\n".join(f"{name}: {fault}" for fault in faults)) from None


def _parse(name: str, content: bytes) -> object:
    try:
        if name.endswith(".json"):
            return json.loads(content, object_pairs_hook=_without_repeats)
        return yaml.load(content, _Loader)  # noqa: S506 - it is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        # The error's own text would quote the line.
        msg = f"{name}{place}: {error.problem}; put texts with special signs in quotes"
    except json.JSONDecodeError as error:
        msg = f"{name}, line {error.lineno}, column {error.colno}: {error.msg}; write JSON"
    except (yaml.YAMLError, UnicodeDecodeError):
        msg = f"{name}: not a text in UTF-8; save the file as YAML or JSON in UTF-8"
    except RecursionError:
        msg = f"{name}: nested too deeply; a configuration file has a few levels"
    except ValueError as error:
        msg = f"{name}: {error}; put a text that looks like a date or a number in quotes"
    raise ConfigurationError(msg) from None


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, of which YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - yaml's signature
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        _refuse_repeats(keys)
        return super().construct_mapping(node, deep)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _refuse_repeats([key for key, _ in pairs])
    return dict(pairs)


def _refuse_repeats(keys: list[str]) -> None:
    for key, count in Counter(keys).items():
        if count > 1:
            msg = f"the key {_shown(key)} stands twice; remove one"
            raise yaml.constructor.ConstructorError(None, None, msg, None)


_KEY = re.compile(r"[\w-]{1,60}")

_REMEDIES = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not known here; correct the name, or remove it",
    "tuple_type": "has to be a list",
    "model_type": "has to be keys with values, as in {key: value}",
    "time_delta_parsing": "has to be an ISO 8601 duration, such as PT30S",
}


def describe_faults(error: ValidationError, *, quote_values: bool = True) -> list[str]:
    """Say for each fault where it is, what is wrong, and what to do.

    A connection's values are not quoted: one of them may be a secret in the wrong place.
    """
    faults = error.errors(include_url=False)
    places = [fault["loc"] for fault in faults]
    # A list that lacks an item because the item is faulty is not a fault of its own.
    return [
        _describe(fault, quote_values=quote_values)
        for fault in faults
        if not any(
            len(place) > len(fault["loc"]) and place[: len(fault["loc"])] == fault["loc"]
            for place in places
        )
    ]


def _describe(fault: "ErrorDetails", *, quote_values: bool) -> str:
    # Parts in angle brackets are the variants of a union, which the file does not show; the mark
    # says that the fault is a key itself.
    parts = [
        _shown(str(part))
        for part in fault["loc"]
        if not str(part).startswith("<") and part != "[key]"
    ]
    place = ".".join(parts) or "document"
    if remedy := _REMEDIES.get(fault["type"]):
        return f"{place} {remedy}"
    if fault["type"] in _TEXT_FAULTS and (remedy := _without_a_text(fault["input"])):
        return f"{place} {remedy}"
    message = UNQUOTED if fault["type"] in _TEXT_FAULTS else fault["msg"]
    found = _found(fault) if quote_values and parts else ""
    return f"{place}: {message.removeprefix('Value error, ')}{found}"


#: Where a text was expected: as a value, and as a key.
_TEXT_FAULTS = {"string_type", "invalid_key"}


def _without_a_text(value: object) -> str | None:
    """Say what to write in place of what quotes would not make the text that was meant."""
    if value is None:
        return "is empty; write a text"
    return "has to be one text" if isinstance(value, dict | list) else None


def _shown(key: str) -> str:
    """Return a key as it may be shown: what does not look like one may be a secret."""
    return key if _KEY.fullmatch(key) else "(no name of a key)"


def _found(fault: "ErrorDetails") -> str:
    value = fault["input"]
    return "" if isinstance(value, dict | list) else f" (found {value!r})"
