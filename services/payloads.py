"""The claim check: a body that is too large for the bus waits in a blob, and its name travels.

The blobs lie in the container `payloads` and outlive the queues' messages. Which of them may go is
for `services.operation.payload_removal` to say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import orjson
from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError, ResourceNotFoundError

from delivery.errors import UnreadableError
from services.storage_access import storage_of

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

PAYLOADS = "payloads"

#: What the storage says of a blob that is gone; a proxy's 404 says nothing.
_BLOB_NOT_FOUND = "BlobNotFound"

_PREFIX = b'{"schemaVersion":1,"payloadBlob":'

#: Ids of messages; nothing that leads elsewhere.
_NAME = re.compile(r"[0-9A-Za-z-]{1,128}")

#: In a blob's metadata: since when no message has been found that refers to it.
_MARK = "unreferenced"


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """A payload as it was listed; `marked` says when no message was found for it."""

    name: str
    etag: str
    written: datetime
    marked: datetime | None


class PayloadService:
    """Puts large bodies aside and fetches them again."""

    def __init__(self, container: "ContainerClient") -> None:
        self._container = container

    def prepare_storage(self) -> None:
        """Create what a new storage account lacks."""
        if not self._container.exists():
            self._container.create_container()

    def check_in(self, message_id: str, body: bytes) -> bytes:
        """Put a large body aside; return a reference to it.

        The id is a hash of the content: writing the same body twice makes it as if it were new.
        Raise UnavailableError where the storage is away.
        """
        with storage_of(f"container {PAYLOADS!r}"):
            self._container.upload_blob(message_id, body, overwrite=True)
        return orjson.dumps({"schemaVersion": 1, "payloadBlob": message_id})

    def check_out(self, body: bytes) -> bytes:
        """Return the body that was given to `check_in`.

        Raise UnreadableError where it is gone, UnavailableError where the storage is away.
        """
        if not body.startswith(_PREFIX):
            return body
        name = reference_in(body)
        if name is None:
            msg = "a reference that names no payload"
            raise UnreadableError(msg)
        with storage_of(f"container {PAYLOADS!r}"):
            try:
                return self._container.download_blob(name).readall()
            except ResourceNotFoundError as error:
                if getattr(error, "error_code", None) != _BLOB_NOT_FOUND:
                    raise  # the container is missing, or it was no answer of the storage
                msg = f"the blob {name!r} is not in the container {PAYLOADS!r} any more"
                raise UnreadableError(msg) from None

    def stored(self) -> Iterator[StoredPayload]:
        """Yield all payloads, page by page."""
        for blob in self._container.list_blobs(include=["metadata"]):
            marked = (blob.metadata or {}).get(_MARK)
            yield StoredPayload(
                blob.name,
                # A listing leaves out the quotation marks, which conditions need.
                f'"{blob.etag.strip('"')}"',
                blob.last_modified,
                None if marked is None else datetime.fromisoformat(marked),
            )

    def mark(self, payload: StoredPayload, now: datetime) -> bool:
        """Note that no message refers to it; return false where it was written meanwhile."""
        return self._set_metadata(payload, {_MARK: now.isoformat()})

    def unmark(self, payload: StoredPayload) -> None:
        """Take the note back; the payload counts as written now."""
        if payload.marked is not None:
            self._set_metadata(payload, {})

    def remove(self, payload: StoredPayload) -> bool:
        """Delete it as it was listed; return false where it was written meanwhile."""
        try:
            self._container.delete_blob(
                payload.name, etag=payload.etag, match_condition=MatchConditions.IfNotModified
            )
        except (ResourceModifiedError, ResourceNotFoundError):
            return False
        return True

    def _set_metadata(self, payload: StoredPayload, metadata: dict[str, str]) -> bool:
        blob = self._container.get_blob_client(payload.name)
        try:
            blob.set_blob_metadata(
                metadata, etag=payload.etag, match_condition=MatchConditions.IfNotModified
            )
        except (ResourceModifiedError, ResourceNotFoundError):
            return False
        return True


def reference_in(body: bytes) -> str | None:
    """Return the name of the payload that `body` refers to, None where it refers to none."""
    if not body.startswith(_PREFIX):
        return None
    try:
        name = str(orjson.loads(body)["payloadBlob"])
    except orjson.JSONDecodeError:
        return None
    return name if _NAME.fullmatch(name) else None
