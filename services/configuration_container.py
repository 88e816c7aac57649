"""The blob container `configuration`, as it stands at one moment."""

from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import ResourceNotFoundError

from delivery.errors import ConfigurationError
from services.configuration_files import FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from azure.storage.blob import BlobProperties, ContainerClient

CONTAINER = "configuration"

#: Blob names and their etags: equal ones mean an unchanged configuration.
Fingerprint = dict[str, str]

_ATTEMPTS = 3


def list_files(container: "ContainerClient") -> "Iterator[BlobProperties]":
    """Yield what lies in the three folders."""
    for folder in FOLDERS:
        yield from container.list_blobs(name_starts_with=f"{folder}/")


def fingerprint(container: "ContainerClient") -> Fingerprint:
    """Return what tells this set from another one."""
    return {blob.name: blob.etag for blob in list_files(container)}


def read_whole(
    container: "ContainerClient", found: Fingerprint
) -> tuple[dict[str, bytes], Fingerprint]:
    """Return the contents of one set, and which one it is: where `found` changes, the next one."""
    for _ in range(_ATTEMPTS):
        contents: dict[str, bytes] = {}
        for name in found:
            with suppress(ResourceNotFoundError):  # removed meanwhile: the etags differ
                contents[name] = container.download_blob(name).readall()
        if (after := fingerprint(container)) == found:
            return contents, found
        found = after
    msg = f"the container {CONTAINER!r} keeps changing; somebody publishes, try again later"
    raise ConfigurationError(msg)
