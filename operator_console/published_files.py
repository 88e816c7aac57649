"""The blob container that holds the configuration of the app."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

from delivery.errors import ConfigurationError, UnavailableError
from models.configuration import Configuration
from operator_console.publishing import Action, Step, digest
from operator_console.storage import is_missing
from services.configuration_files import FOLDERS, read_all
from services.initialization import CONTAINER

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties, ContainerClient

_READ_ATTEMPTS = 3


def read_digests(container: "ContainerClient") -> dict[str, bytes]:
    """Return every file below the three folders; none where there is no container yet."""
    try:
        return {blob.name: _digest(container, blob) for blob in _list(container)}
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
        contents = _read_whole(container)
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


def _read_whole(container: "ContainerClient") -> dict[str, bytes]:
    """Read all files as they were at one moment."""
    before = _etags(container)
    for _ in range(_READ_ATTEMPTS):
        contents = {}
        for name in before:
            with suppress(ResourceNotFoundError):  # removed meanwhile: the etags differ
                contents[name] = container.download_blob(name).readall()
        if (after := _etags(container)) == before:
            return contents
        before = after
    msg = f"the container {CONTAINER!r} keeps changing; somebody publishes, try again later"
    raise UnavailableError(msg)


def _etags(container: "ContainerClient") -> dict[str, str]:
    return {blob.name: blob.etag for blob in _list(container)}


def _list(container: "ContainerClient") -> "Iterator[BlobProperties]":
    for folder in FOLDERS:
        yield from container.list_blobs(name_starts_with=f"{folder}/")


def _digest(container: "ContainerClient", blob: "BlobProperties") -> bytes:
    # Blobs that were uploaded in blocks have no MD5 of their own.
    if md5 := blob.content_settings.content_md5:
        return bytes(md5)
    return digest(container.download_blob(blob.name).readall())
