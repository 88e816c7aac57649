"""Why a record cannot be mapped. No text in here quotes a value: values are people's data."""

from delivery.errors import RejectedError


class MappingError(RejectedError):
    """One record does not fit its mapping; the text names mapping, field, step and remedy."""

    code = "mapping"


class Refusal(Exception):  # noqa: N818 - never leaves the package: it becomes a MappingError
    """A step cannot take the value; the text says what it needs and what to do."""
