"""The claim check: a body that is too large for the bus waits in a blob, and its name travels.

The blobs lie in the container `payloads` and outlive the queues' messages.
"""

from typing import TYPE_CHECKING

import orjson
from azure.core.exceptions import ResourceNotFoundError

from delivery.errors import UnreadableError

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

PAYLOADS = "payloads"

_PREFIX = b'{"schemaVersion":1,"payloadBlob":'


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

        The id is a hash of the content: writing the same body twice changes nothing.
        """
        self._container.upload_blob(message_id, body, overwrite=True)
        return orjson.dumps({"schemaVersion": 1, "payloadBlob": message_id})

    def check_out(self, body: bytes) -> bytes:
        """Return the body that was given to `check_in`; raise UnreadableError where it is gone."""
        if not body.startswith(_PREFIX):
            return body
        try:
            name = str(orjson.loads(body)["payloadBlob"])
            return self._container.download_blob(name).readall()
        except orjson.JSONDecodeError:
            msg = "a reference to a payload that is not JSON"
            raise UnreadableError(msg) from None
        except ResourceNotFoundError:
            msg = f"the blob {name!r} is not in the container {PAYLOADS!r} any more"
            raise UnreadableError(msg) from None
