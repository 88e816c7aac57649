"""The blob container that holds the configuration of the app."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from operator_console.publishing import Action, Step, digest
from operator_console.storage import is_missing
from services.configuration_container import CONTAINER, fingerprint, list_files, read_whole
from services.configuration_files import read_all

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties, ContainerClient


def read_digests(container: "ContainerClient") -> dict[str, bytes]:
    """Return every file below the three folders; none where there is no container yet."""
    try:
        return {blob.name: _digest(container, blob) for blob in list_files(container)}
    except ResourceNotFoundError as error:
        if not is_missing(error, "Container"):
            raise
        return {}


def apply(
    container: "ContainerClient", steps: Iterable[Step], contents: Mapping[str, bytes]
) -> Iterator[Step]:
    """Do the steps and yield each one that is done; the container is created where it is missing.

    Ended before its end it leaves a mixture; planning and applying again completes it.
    """
    for step in steps:
        if step.action is Action.REMOVE:
            with suppress(ResourceNotFoundError):
                container.delete_blob(step.file)
        else:
            _upload(container, step.file, contents[step.file])
        yield step


def _upload(container: "ContainerClient", name: str, content: bytes) -> None:
    try:
        container.upload_blob(name, content, overwrite=True)
    except ResourceNotFoundError as error:
        if not is_missing(error, "Container"):
            raise
        with suppress(ResourceExistsError):
            container.create_container()
        container.upload_blob(name, content, overwrite=True)


def read_published(container: "ContainerClient") -> Configuration:
    """Return the set as it is published; raise ConfigurationError where it is not valid."""
    try:
        contents = read_whole(container, fingerprint(container))[0]
    except ResourceNotFoundError as error:
        if not is_missing(error, "Container"):
            raise
        contents = {}
    if not contents:
        msg = f"no configuration is published in the container {CONTAINER!r}; publish one first"
        raise ConfigurationError(msg)
    try:
        return read_all(CONTAINER, contents)
    except ConfigurationError as error:
        msg = f"the published configuration is not valid; publish a valid one:\n{error}"
        raise ConfigurationError(msg) from error


def _digest(container: "ContainerClient", blob: "BlobProperties") -> bytes:
    # Blobs that were uploaded in blocks have no MD5 of their own.
    if md5 := blob.content_settings.content_md5:
        return bytes(md5)
    return digest(container.download_blob(blob.name).readall())
