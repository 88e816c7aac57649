"""Shows on a terminal how far it is; elsewhere nothing but the data is printed."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click


class Progress(NamedTuple):
    """`advance` counts messages; `say` prints data, which a bar must not run over."""

    advance: Callable[[int], None]
    say: Callable[[str], None]


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Progress]:
    """Show a bar, or a count where nobody knows the total."""
    if not sys.stderr.isatty():
        yield Progress(lambda _: None, click.echo)
        return
    from rich.console import Console  # noqa: PLC0415 - not needed in a pipe
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn  # noqa: PLC0415 - as above
    from rich.progress import Progress as Bar  # noqa: PLC0415 - as above

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())

    def above_the_bar(text: str) -> None:
        console.print(text, soft_wrap=True)

    with Bar(*columns, console=console, transient=True, redirect_stdout=False) as bar:
        task = bar.add_task(what, total=total)
        yield Progress(
            lambda count: bar.advance(task, count),
            above_the_bar if sys.stdout.isatty() else click.echo,
        )
