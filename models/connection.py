"""A connection: one remote system and how to reach it."""

from typing import Literal

from models.document import Document, Name, SecretReference


class Connection(Document):
    """A database that SQLAlchemy can reach; `url` names the app setting with its URL."""

    name: Name
    system: Literal["sql"]
    url: SecretReference
