"""The rules file: what becomes of a message, by its error."""

import re
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dead_letter_mover.letters import Letter
from models.document import Document, Name
from services.configuration_files import read_document


class Action(StrEnum):
    """What a rule says, in the specification's words."""

    RESUBMIT = "Resubmit"
    #: It stays where it is.
    NONE = "None"
    #: It is taken out without being sent again.
    SKIP = "Skip"


def _compiled(text: object) -> re.Pattern[str]:
    if not isinstance(text, str):
        msg = "write a text in quotes"
        raise ValueError(msg)  # noqa: TRY004 - pydantic wants this one
    try:
        with warnings.catch_warnings(action="ignore"):
            return re.compile(text)
    except (re.PatternError, RecursionError, OverflowError) as error:
        msg = f"this is no regular expression: {error}"
        raise ValueError(msg) from None


class Rule(Document):
    """Matches by a regular expression that is found in the error, or where no error is recorded."""

    pattern: Annotated[re.Pattern[str], BeforeValidator(_compiled)] | None = None
    unrecorded: Literal[True] | None = None
    job: Name | None = None
    action: Action

    @model_validator(mode="after")
    def _one_way_to_match(self) -> Self:
        if (self.pattern is None) == (self.unrecorded is None):
            msg = "write either `pattern: TEXT`, or `unrecorded: true` for messages without error"
            raise ValueError(msg)
        return self

    def matches(self, letter: Letter) -> bool:
        """Tell whether this rule speaks about the message."""
        if self.job is not None and self.job != letter.job_name:
            return False
        if letter.error is None or self.pattern is None:
            return letter.error is None and self.pattern is None
        return self.pattern.search(letter.error) is not None


class Rules(Document):
    """The rules in their order: the first one that matches decides."""

    rules: tuple[Rule, ...] = Field(min_length=1)

    def action_for(self, letter: Letter) -> Action:
        """Return what becomes of the message; without a match it stays."""
        return next((rule.action for rule in self.rules if rule.matches(letter)), Action.NONE)


def read_rules(path: Path) -> Rules:
    """Read a file of YAML or JSON; raise ConfigurationError with a line for each fault."""
    return read_document(path.as_posix(), path.read_bytes(), Rules)
