"""Every error that we raise on purpose. The class says what happens next.

* DeliveryError
  x UnprocessableError   no attempt will ever succeed                    -> dead-letter at once
    + UnreadableError      ... because the message cannot be parsed
    + MappingError         ... because its record does not fit the mapping
  x OutdatedError        the target holds something newer                -> set aside as ignored
  x TransitiveError      what the record refers to is not there yet      -> set aside as transitive
  x RejectedError        the target refused the content                  -> try again, ever later
  x UnavailableError     the remote system did not answer, or not in time   -> the same
  x LockLostError        somebody else may be at work on the message        -> the same
  x ConfigurationError   connections, mappings or jobs are wrong            -> the same

`delivery.retry` says how often and how late. docs/delivery.md has the table with who is told.
"""

from typing import ClassVar


class DeliveryError(Exception):
    """Base of the tree; its text names what was wrong, where, and what to do."""

    #: A stable key for dead-letter rules, log searches and alerts; never changed once shipped.
    code: ClassVar[str] = "delivery"


class UnprocessableError(DeliveryError):
    """No attempt will ever succeed."""

    code = "unprocessable"


class UnreadableError(UnprocessableError):
    """The body is not one of our messages."""

    code = "unreadable"


class MappingError(UnprocessableError):
    """One record does not fit its mapping; the text names mapping, field, step and remedy.

    It quotes no value: values are people's data.
    """

    code = "mapping"


class OutdatedError(DeliveryError):
    """The target holds a newer change of the record; it was left as it is."""

    code = "outdated"


class TransitiveError(DeliveryError):
    """The record refers to another one that is not in the target yet."""

    code = "transitive"


class RejectedError(DeliveryError):
    """The target understood the request and refused the content."""

    code = "rejected"


class UnavailableError(DeliveryError):
    """The remote system was not reached, or did not answer in time."""

    code = "unavailable"


class LockLostError(DeliveryError):
    """The message's lock ran out: it will be, or is being, delivered again."""

    code = "lock-lost"


class ConfigurationError(DeliveryError):
    """A configuration file or an app setting is missing or wrong."""

    code = "configuration"
