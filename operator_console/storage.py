"""The app's storage account: the published configuration, and the watermarks.

What the SDK raises becomes an error of ours here, and never quotes a secret.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)

from delivery.errors import (
    ConfigurationError,
    DeliveryError,
    RejectedError,
    UnavailableError,
)
from services.azure_access import STORAGE, blob_client, table_client
from services.configuration_container import CONTAINER
from services.detection.watermarks import BOUNDARIES, TABLE, StoredWatermark, WatermarkService

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

#: Somebody waits at a terminal: what does not answer is given up in less than ten seconds.
_PATIENCE: dict[str, Any] = {
    "connection_timeout": 4,
    "read_timeout": 8,
    "retry_total": 1,
    "retry_read": 0,
}
_BLOBS: dict[str, Any] = {"initial_backoff": 1, "increment_base": 0, "random_jitter_range": 0}


@dataclass(frozen=True, slots=True)
class Storage:
    """The two parts of the account that operators work on; `address` holds no secret."""

    address: str
    container: "ContainerClient"
    _watermarks: WatermarkService

    def watermarks(self) -> dict[str, StoredWatermark]:
        """Return the rows of all jobs; none where the app never ran."""
        try:
            return self._watermarks.get_all_watermarks()
        except ResourceNotFoundError as error:
            if not is_missing(error, "Table"):
                raise
            return {}

    def set_watermark(self, job_name: str, watermark: str) -> None:
        """Write a watermark, also before the app's first run; an empty one starts over."""
        try:
            self._watermarks.set_watermark(job_name, watermark)
        except ResourceNotFoundError as error:
            if not is_missing(error, "Table"):
                raise
            self._watermarks.prepare_storage()
            self._watermarks.set_watermark(job_name, watermark)


def is_missing(error: AzureError, what: str) -> bool:
    """Tell whether the service says so of a Table or Container; another 404 is another problem."""
    return getattr(error, "error_code", None) == f"{what}NotFound"


@contextmanager
def open_storage(settings: Mapping[str, str]) -> Iterator[Storage]:
    """Yield the account; within, failures of the SDK are raised as errors of ours."""
    with ExitStack() as closing:
        try:
            blobs = closing.enter_context(blob_client(settings, **_PATIENCE, **_BLOBS))
            tables = closing.enter_context(table_client(settings, **_PATIENCE))
        except ValueError:
            # The cause may quote the setting.
            msg = f"the setting {STORAGE} is no valid connection string or address; correct it"
            raise ConfigurationError(msg) from None
        watermarks = WatermarkService(
            tables.get_table_client(TABLE), blobs.get_container_client(BOUNDARIES)
        )
        address = _without_query(blobs.url)
        with translated(address):
            yield Storage(address, blobs.get_container_client(CONTAINER), watermarks)


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Raise what the SDK raises as an error that says where, what and what to do.

    `address` is named where the SDK does not say whom it tried to reach.
    """
    try:
        yield
    except AzureError as error:
        where = f"the storage at {_address_in(error) or address}"
        raise _to_delivery_error(error, where) from error


_UNAVAILABLE = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
_REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def _to_delivery_error(error: AzureError, where: str) -> DeliveryError:
    status = getattr(error, "status_code", None)
    code = getattr(error, "error_code", None)
    answer = f"HTTP {status}" + (f", {getattr(code, 'value', code)}" if code else "")
    if isinstance(error, ClientAuthenticationError) or status in _REFUSED:
        problem = f"refuses the credentials ({answer})" if status else "cannot be logged on to"
        return ConfigurationError(
            f"{where} {problem}; check the key in {STORAGE}, or the identity and its roles for "
            "blob and table data"
        )
    if status is None or not isinstance(error, HttpResponseError):
        return UnavailableError(
            f"{where} does not answer: {_root_cause(error)}; check the address in {STORAGE} "
            "and the network"
        )
    if status in _UNAVAILABLE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return UnavailableError(f"{where} cannot serve now ({answer}); try again later")
    return RejectedError(f"{where} refuses the request ({answer}); check the address in {STORAGE}")


def _address_in(error: AzureError) -> str | None:
    response = getattr(error, "response", None)
    request = getattr(response or error.inner_exception, "request", None)
    return _without_query(request.url) if request else None


def _without_query(url: str) -> str:
    parts = urlsplit(url)  # a signature may stand in the query
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


def _root_cause(failure: AzureError) -> str:
    """Return the operating system's words; those of the libraries above it may quote a URL."""
    error: BaseException = failure.inner_exception or failure
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or type(error).__name__
