"""A connection: one remote system and how to reach it."""

from typing import Literal

from models.document import Document, Name, SecretReference


class Connection(Document):
    """One remote system and how to reach it; a file in `connections/`."""

    name: Name
    """By which jobs refer to it."""

    system: Literal["sql"]
    """What it is: a database that SQLAlchemy can reach."""

    url: SecretReference
    """`${NAME}`, where the app setting `NAME` holds `dialect+driver://user:password@host/database`.

    A URL in the file itself is refused. In the setting, escape special characters of user and
    password (`@` is `%40`); a URL in which the end of the password is not clear is refused.
    """
