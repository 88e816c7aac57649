"""JSON Schemas of the configuration files, made of the models that validate them."""

import json
import re
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from models.connection import Connection
from models.document import Document
from models.job import Job
from models.mapping import Mapping

_MODELS: dict[str, type[Document]] = {"connection": Connection, "job": Job, "mapping": Mapping}

#: A line's end within a paragraph of a docstring.
_WRAP = re.compile(r"(?<!\n)\n(?!\n)")


class _Generator(GenerateJsonSchema):
    """Leaves out titles of fields, which only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as in the base
        return False


def schema_files() -> dict[str, str]:
    """Return the text of each schema by its file name."""
    return {
        f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas_by_kind().items()
    }


def schemas_by_kind() -> dict[str, Any]:
    """Return the schemas of a connection, a job and a mapping."""
    return {
        kind: {
            "$schema": _Generator.schema_dialect,
            **_unwrapped(model.model_json_schema(by_alias=True, schema_generator=_Generator)),
        }
        for kind, model in _MODELS.items()
    }


def _unwrapped(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """Return `schema` with a line for each paragraph of a description."""
    match schema:
        case dict():
            return {key: _unwrapped(value) for key, value in schema.items()}
        case list():
            return [_unwrapped(value) for value in schema]
        case str():
            return _WRAP.sub(" ", schema)
        case _:
            return schema
