"""JSON Schemas of the configuration files, made of the models that validate them."""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from models.connection import Connection
from models.document import Document
from models.job import Job
from models.mapping import Mapping

_MODELS: dict[str, type[Document]] = {"connection": Connection, "mapping": Mapping, "job": Job}


class _Generator(GenerateJsonSchema):
    """Leaves out titles of fields, which only repeat their names."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - as in the base
        return False


def schema_files() -> dict[str, str]:
    """Return the text of each schema by its file name."""
    return {f"{name}.schema.json": _text(model) for name, model in _MODELS.items()}


def _text(model: type[Document]) -> str:
    schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    document = {"$schema": _Generator.schema_dialect, **schema}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
