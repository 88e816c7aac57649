"""Texts of failures: bounded, because a history that holds a huge one stalls its instance."""

MAX_ERROR_BYTES = 16 * 1024


def cut(text: str) -> str:
    """Return `text`, shortened to 16 KB of UTF-8 with a note of how long it was."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_ERROR_BYTES:
        return encoded.decode()
    note = f" … (shortened from {len(text):,} characters)"
    room = MAX_ERROR_BYTES - len(note.encode())
    return encoded[:room].decode("utf-8", "ignore") + note
