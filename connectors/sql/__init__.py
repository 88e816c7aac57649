"""SQL databases, through SQLAlchemy.

`source` reads changes, `target` writes them, `dialects` knows what the databases do differently.
PostgreSQL and SQLite are run in the tests; SQL Server and MySQL are compiled there and never run.
"""

from connectors.sql.connector import SqlConnector

__all__ = ["SqlConnector"]
