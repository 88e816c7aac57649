"""SQL Server's upsert, which SQLAlchemy cannot build: a text with every name quoted."""

from collections.abc import Iterable, Iterator

import sqlalchemy as sa

from connectors.sql.types import Columns, typed_parameter


def parameter_names(columns: Columns) -> list[str]:
    """Return names of letters and digits only, as a text takes them."""
    return [f"p{place}" for place in range(len(columns))]


def merge(
    dialect: sa.Dialect,
    table: sa.Table,
    keys: Columns,
    fields: Columns,
    guard: sa.Column[str] | None,
) -> sa.TextClause:
    """Return the statement; a row whose guard is later than the new one's stays as it is."""
    preparer = dialect.identifier_preparer
    names = {column.name: preparer.format_column(column) for column in (*keys, *fields)}
    parts = [
        typed_parameter(column, name, dialect)
        for column, name in zip((*keys, *fields), parameter_names((*keys, *fields)), strict=True)
    ]
    lines = _lines(
        preparer.format_table(table),
        [names[key.name] for key in keys],
        [names[field.name] for field in fields],
        None if guard is None else names[guard.name],
    )
    # A colon in a name would begin a parameter.
    before, after = (text.replace(":", "\\:") for text in lines)
    values = ", ".join(text for text, _ in parts)
    return sa.text(f"{before}({values}){after}").bindparams(*(bound for _, bound in parts))


def _lines(table: str, keys: list[str], fields: list[str], guard: str | None) -> tuple[str, str]:
    """Return what comes before and after the list of values."""
    names = ", ".join((*keys, *fields))
    matches = " AND ".join(_each("held.{0} = new.{0}", keys))
    # Without HOLDLOCK two of them would both insert.
    before = f"MERGE INTO {table} WITH (HOLDLOCK) AS held\nUSING (VALUES "
    after = [f") AS new ({names})", f"ON {matches}"]
    if fields:
        changed = ", ".join(_each("{0} = new.{0}", fields))
        passes = "" if guard is None else _PASSES.format(guard)
        after.append(f"WHEN MATCHED{passes} THEN UPDATE SET {changed}")
    inserted = ", ".join(_each("new.{0}", [*keys, *fields]))
    after.append(f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({inserted});")  # noqa: S608 - names are quoted
    return before, "\n".join(after)


_PASSES = " AND (held.{0} IS NULL OR held.{0} <= new.{0})"


def _each(form: str, names: Iterable[str]) -> Iterator[str]:
    return (form.format(name) for name in names)
