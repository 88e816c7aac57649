"""Every error that we raise on purpose. The class says what happens next.

* DeliveryError
  x UnreadableError      the message cannot be parsed: no attempt will succeed
  x RejectedError        the target refused the content
  x TransitiveError      nothing is wrong with this one; what it refers to is not in the target yet
  x UnavailableError     the remote system did not answer, or not in time
  x ConfigurationError   connections, mappings or jobs are wrong: every message would fail

All are ordinary errors to a queue: the message is abandoned with its error properties, tried
again, and dead-lettered when the queue's maximum delivery count is reached.
"""

from typing import ClassVar


class DeliveryError(Exception):
    """Base of the tree; its text names what was wrong, where, and what to do."""

    #: A stable key for dead-letter rules, log searches and alerts; never changed once shipped.
    code: ClassVar[str] = "delivery"


class UnreadableError(DeliveryError):
    """The body is not one of our messages."""

    code = "unreadable"


class RejectedError(DeliveryError):
    """The target understood the request and refused the content."""

    code = "rejected"


class TransitiveError(DeliveryError):
    """The record refers to another one that is not in the target yet."""

    code = "transitive"


class UnavailableError(DeliveryError):
    """The remote system was not reached, or did not answer in time."""

    code = "unavailable"


class ConfigurationError(DeliveryError):
    """A configuration file or an app setting is missing or wrong."""

    code = "configuration"
