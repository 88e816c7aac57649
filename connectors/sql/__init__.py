"""SQL databases, through SQLAlchemy.

`source` reads changes, `lookup` references. `target` writes changes, with the statements of
`upserts` and `merges`, and of `updates` for a row that is there; `responses` reads what the target
made of them; `actions` calls routines. `tables` and `types` know tables, columns and what these can
hold. `engines` connects, and `deadlines` lets no call last for ever. `errors` says what a failure
means, with the databases' own `codes`; `connecting` says why there was no connection.

PostgreSQL and SQLite are run in the tests; SQL Server and MySQL are compiled there and never run.
"""

from connectors.sql.connector import SqlConnector

__all__ = ["SqlConnector"]
