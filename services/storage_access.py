"""What becomes of an error of the storage account while a message is in hand."""

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError

from delivery.errors import UnavailableError


@contextmanager
def storage_of(what: str) -> Iterator[None]:
    """Raise UnavailableError where the account refuses or does not answer.

    The SDK's text may hold addresses; its type says enough beside `what`.
    """
    try:
        yield
    except AzureError as error:
        code = getattr(error, "error_code", None)
        kind = getattr(code, "value", code) or type(error).__name__
        msg = f"{what}: the storage account did not do it ({kind}); GET /api/Health shows more"
        raise UnavailableError(msg) from error
