"""What was already sent at the watermark itself.

Sources are read from the watermark on, inclusively, because a record may become visible late with
the same cursor value. The boundary keeps what was sent at that value, so that it is not sent again.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

#: A run remembers so many records at one cursor value; further ones are sent again by the next one.
MOST_RECORDS = 1_000_000

_PAIR = struct.Struct(">QQ")


@dataclass(frozen=True, slots=True)
class Boundary:
    """For each record sent at the cursor value `value`, hashed: its key, and what was sent last.

    The last content, not every content: a record that changes back within one cursor value is a
    change again.
    """

    value: str
    contents: Mapping[int, int] = field(default_factory=dict)

    def knows(self, source_key: str, content_hash: int) -> bool:
        """Tell whether this content is what was sent last for this record."""
        return self.contents.get(_hash(source_key)) == content_hash

    def with_sent(self, sent: Mapping[str, int]) -> "Boundary":
        """Return the boundary after content hashes were sent by source key."""
        return Boundary(
            self.value, {**self.contents, **{_hash(key): content for key, content in sent.items()}}
        )

    def encode(self) -> str:
        """Return the text that `decode` reads."""
        raw = b"".join(_PAIR.pack(*pair) for pair in sorted(self.contents.items()))
        return json.dumps({"value": self.value, "hashes": base64.b64encode(raw).decode()})

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raise ValueError where `text` was not encoded by us."""
        try:
            document = json.loads(text)
            raw = base64.b64decode(document["hashes"], validate=True)
            return cls(str(document["value"]), dict(_PAIR.iter_unpack(raw)))
        except (KeyError, TypeError, struct.error) as error:
            msg = "not a boundary"
            raise ValueError(msg) from error


def _hash(source_key: str) -> int:
    return int.from_bytes(hashlib.blake2b(source_key.encode(), digest_size=8).digest())
