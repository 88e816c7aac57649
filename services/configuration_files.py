"""Reads configuration files: YAML or JSON, one document each, in three folders."""

from collections.abc import Mapping as Files
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from models.document import SECRET_LITERAL, Document
from models.job import Job
from models.mapping import Mapping

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

FOLDERS = ("connections", "mappings", "jobs")

FILE_TYPES = (".yaml", ".yml", ".json")

_MODELS: dict[str, type[Document]] = {
    "connections": Connection,
    "mappings": Mapping,
    "jobs": Job,
}


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
    try:
        # JSON is a subset of YAML.
        return model.model_validate(yaml.safe_load(content))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        # The error's own text would quote the line.
        msg = f"{name}{place}: {error.problem}; write YAML or JSON"
        raise ConfigurationError(msg) from None
    except (yaml.YAMLError, UnicodeDecodeError):
        msg = f"{name}: not a text in UTF-8; save the file as YAML or JSON in UTF-8"
        raise ConfigurationError(msg) from None
    except ValidationError as error:
        # The cause would quote the input, which may be a secret in the wrong place.
        raise ConfigurationError(
            "\n".join(f"{name}: {fault}" for fault in describe_faults(error))
        ) from None


_REMEDIES = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not known here; correct the name, or remove it",
}


def describe_faults(error: ValidationError) -> list[str]:
    """Say for each fault where it is, what is wrong, and what to do; secrets are not quoted."""
    faults = error.errors(include_url=False)
    places = [fault["loc"] for fault in faults]
    # A list that lacks an item because the item is faulty is not a fault of its own.
    return [
        _describe(fault)
        for fault in faults
        if not any(
            len(place) > len(fault["loc"]) and place[: len(fault["loc"])] == fault["loc"]
            for place in places
        )
    ]


def _describe(fault: "ErrorDetails") -> str:
    # Parts in angle brackets are the variants of a union, which the file does not show.
    parts = [str(part) for part in fault["loc"] if not str(part).startswith("<")]
    place = ".".join(parts) or "document"
    if remedy := _REMEDIES.get(fault["type"]):
        return f"{place} {remedy}"
    return f"{place}: {fault['msg'].removeprefix('Value error, ')}{_found(fault)}"


def _found(fault: "ErrorDetails") -> str:
    value = fault["input"]
    if fault["type"] == SECRET_LITERAL or isinstance(value, dict | list):
        return ""
    return f" (found {value!r})"
