"""What all configuration documents have in common."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Document(BaseModel):
    """A part of a configuration file: camelCase keys, unknown ones refused, immutable."""

    model_config = ConfigDict(
        alias_generator=to_camel, extra="forbid", frozen=True, validate_by_name=True
    )


def _refuse_literal(text: str) -> str:
    name = text.removeprefix("${").removesuffix("}")
    if text != f"${{{name}}}" or not name.isidentifier():
        # The value itself stays out of the message: it may be a password.
        msg = (
            "a secret must not stand in a configuration file; write ${NAME} here "
            "and put the value into the app setting NAME"
        )
        raise ValueError(msg)
    return name


#: The name of the app setting that holds a secret; written as `${NAME}` in the file.
SecretReference = Annotated[str, AfterValidator(_refuse_literal)]
