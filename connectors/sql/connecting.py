"""Why no connection was made, in words of our own: the drivers' quote host, port and user.

Where the URL was not meant as it was read, these are parts of a password.
"""

import re

from sqlalchemy import exc

#: What tells the reason: a code, or words of the driver or the system.
_LOG_ON = r"\b(28P01|28000|1045)\b|authentication failed|no pg_hba\.conf|access denied|login failed"
_DATABASE = r"\b(3D000|1049|4060)\b|database .*does not exist|(unknown|cannot open) database"
_NAME = r"(resolve|translate|no such|unknown .*server) host|not known|getaddrinfo|nodename"

#: The same with what we say.
_REASONS = [
    (re.compile(found, re.IGNORECASE), words)
    for found, words in (
        (_LOG_ON, "the log-on was refused"),
        (_DATABASE, "the server has no such database"),
        (
            r"\b(53300|1040)\b|too many (clients|connections)|connection slots",
            "the server has too many connections",
        ),
        (r"\b57P0[123]\b|(starting up|shutting down)", "the server is starting or stopping"),
        (_NAME, "its host name was not resolved"),
        (r"\brefused\b", "nothing listens there"),
        (r"time-?d? ?out|HYT00", "the server did not answer in time"),
        (r"closed the connection|lost connection", "the server closed the connection"),
        (r"\b(ssl|tls|certificate)\b", "no secure connection was agreed on"),
        (r"open database file", "the file cannot be opened"),
    )
]


def is_of_connecting(error: exc.DBAPIError) -> bool:
    """Tell whether there was no connection yet, and so no statement.

    Where rows cannot be read there is none either: what is wrong with the data is another thing.
    """
    return error.statement is None and not isinstance(error, exc.DataError)


def reason_of(error: exc.DBAPIError) -> str:
    """Return why, by code or words; the class of the driver's error where neither is known."""
    orig = error.orig
    text = f"{getattr(orig, 'sqlstate', '')} {type(orig).__name__} {getattr(orig, 'args', '')}"
    for pattern, words in _REASONS:
        if pattern.search(text):
            return f"the connection failed: {words}"
    return f"the connection failed: {type(orig).__name__}"
