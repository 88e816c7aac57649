"""What all configuration documents have in common."""

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Document(BaseModel):
    """A part of a configuration file: camelCase keys, unknown ones refused, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        # What stands below a field is its description in the schemas and in the reference.
        use_attribute_docstrings=True,
        validate_by_name=True,
    )


_REFERENCE = r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"


def _refuse_literal(value: object) -> str:
    if not isinstance(value, str) or not re.match(_REFERENCE, value):
        msg = (
            "write ${NAME} here, and put the value into the app setting NAME; "
            "a secret must not stand in a configuration file"
        )
        raise ValueError(msg)
    return value.removeprefix("${").removesuffix("}")


#: The name of the app setting that holds a secret; written as `${NAME}` in the file.
SecretReference = Annotated[
    str, BeforeValidator(_refuse_literal), WithJsonSchema({"type": "string", "pattern": _REFERENCE})
]
