"""Why a step refuses a value. No text in here quotes it: values are people's data."""


class Refusal(Exception):  # noqa: N818 - never leaves the package: it becomes a MappingError
    """A step cannot take the value; the text says what it needs and what to do."""
