"""What all commands share: where they get things from, and how they speak.

Data goes to stdout, talk to stderr.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from operator_console.probe.ports import ProbedQueue, Waiting
from operator_console.probe.waiting import Clock
from operator_console.settings import Settings, service_bus_settings, storage_settings
from operator_console.storage import Storage, open_storage

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

EXIT_CODES = """\
\b
Exit codes:
  0  done
  1  failed, or something is not valid
  2  wrong usage
"""

as_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document to stdout."
)

folder_type = click.Path(exists=True, file_okay=False, path_type=Path)


def _now() -> datetime:
    return datetime.now(UTC)


def _settings() -> Settings:
    return storage_settings(os.environ, Path.cwd())


def _service_bus_settings() -> Settings:
    return service_bus_settings(os.environ, Path.cwd())


def _open_queue(settings: Mapping[str, str], name: str) -> AbstractContextManager[ProbedQueue]:
    from operator_console.probe.service_bus import open_queue  # noqa: PLC0415 - heavy: imported when used

    return open_queue(settings, name)


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


@dataclass(frozen=True, slots=True)
class Console:
    """What a command gets as its `obj`; tests put theirs in its place."""

    settings: Callable[[], Settings] = _settings
    open_storage: Callable[[Mapping[str, str]], AbstractContextManager[Storage]] = open_storage
    now: Callable[[], datetime] = _now
    is_interactive: Callable[[], bool] = _is_interactive
    service_bus_settings: Callable[[], Settings] = _service_bus_settings
    open_queue: Callable[[Mapping[str, str], str], AbstractContextManager[ProbedQueue]] = (
        _open_queue
    )
    clock: Waiting = field(default_factory=Clock)

    @contextmanager
    def storage(self) -> Iterator[Storage]:
        """Open the storage account of the settings, and say which one it is."""
        settings = self.settings()
        with self.open_storage(settings.values) as storage:
            talk(f"storage account: {storage.address} ({settings.origin})")
            yield storage


def talk(text: str) -> None:
    """Say something that is not data."""
    click.echo(text, err=True)


def print_json(value: object) -> None:
    """Print the one document of a command; in ASCII, which no terminal's encoding refuses."""
    click.echo(json.dumps(value, indent=2, default=_to_json))


def shown(moment: datetime | None) -> str:
    """Return a time as tables and JSON show it: UTC, whole seconds."""
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def print_table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Print columns; on a terminal long cells are folded, in a pipe a row is a line."""
    from rich.table import Table  # noqa: PLC0415 - not needed for --json

    table = Table(box=None, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    _rich(stderr=False).print(table)


def with_progress[T](items: Iterable[T], what: str, total: int | None = None) -> Iterable[T]:
    """Pass `items` on and show how far they are, on a terminal only."""
    from rich.progress import track  # noqa: PLC0415 - not needed for --help

    return track(
        items,
        what,
        total=total,
        console=_rich(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something goes on, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    with _rich(stderr=True).status(what):
        yield


def _rich(*, stderr: bool) -> "RichConsole":
    from rich.console import Console as RichConsole  # noqa: PLC0415 - not needed for --json

    on_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return RichConsole(
        stderr=stderr,
        force_terminal=on_terminal,
        width=None if on_terminal else _WIDTH_OF_A_PIPE,
        markup=False,
        emoji=False,
        highlight=False,
    )


#: Wider than any row.
_WIDTH_OF_A_PIPE = 100_000


def _to_json(value: object) -> str:
    if isinstance(value, datetime):
        return shown(value)
    msg = f"{type(value).__name__} has no place in JSON"
    raise TypeError(msg)
