"""What Service Bus takes (Standard tier), applied before anything is sent.

Source: "Service Bus quotas", Microsoft Learn.
"""

#: The specification's batch size; the byte limit of a batch is the SDK's to check.
MESSAGES_PER_BATCH = 200

#: A message may have 256 KB; 64 KB of them stay free for properties and headers.
LARGEST_BODY_BYTES = 192 * 1024

#: One property may hold 32 KB, all of a message's properties and headers together 64 KB. The error
#: properties stay far below, because the message's own properties need their place too.
ERROR_MESSAGE_BYTES = 4_096
ERROR_STACK_TRACE_BYTES = 16_384

#: A dead letter's reason and description may have 4,096 characters each.
DEAD_LETTER_TEXT_BYTES = 4_096

_MARK = "…"


def cut(text: str, most_bytes: int) -> str:
    """Return `text`, shortened to `most_bytes` of UTF-8 without splitting a character."""
    encoded = text.encode("utf-8", errors="replace")
    if len(encoded) <= most_bytes:
        return encoded.decode()
    kept = encoded[: most_bytes - len(_MARK.encode())]
    return kept.decode("utf-8", errors="ignore") + _MARK


def cut_front(text: str, most_bytes: int) -> str:
    """Do the same, but keep the end: a stack trace ends with its cause."""
    return cut(text[::-1], most_bytes)[::-1]
