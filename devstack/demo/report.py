"""How the figures of the demonstration look: one table, or lines where that is too wide."""

from collections.abc import Mapping

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from devstack.demo.books import IGNORED_QUEUE, Figures, Remaining

_TOTAL = "together"

#: Wider than any table of ours.
_ANY = 1_000

#: How the names of the figures are broken where they head a column.
_HEADS = {"transitive": "tran-\nsitive", "dead_lettered": "dead-\nlettered"}

NOTES = (
    "detected, success, transitive, ignored, failed, dead-lettered: the app's own metrics",
    "sent: what the Service Bus emulator took in, without what was sent back or put off",
    "requeued: what the dead-letter mover says that it sent back",
    "failed counts attempts, of which a message has three here; every other figure counts messages",
)

#: What `books.faults` looks at, job by job.
BALANCE = (
    "detected = sent",
    "sent + requeued = success + transitive + ignored + dead-lettered",
    "transitive + dead-lettered = requeued + what still lies there",
    "ignored = what lies in sbqignored",
)


class FigureTable:
    """One row a job; fits itself to the width there is."""

    def __init__(self, figures: Mapping[str, Figures]) -> None:
        self._rows = dict(figures)
        if len(figures) > 1:
            self._rows[_TOTAL] = sum(figures.values(), start=Figures())

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, width = self._table(), options.max_width
        if Measurement.get(console, options.update(max_width=_ANY), table).maximum <= width:
            yield table
        else:
            yield from self._lines()

    def _table(self) -> Table:
        table = Table(box=SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
        table.add_column("job", no_wrap=True, vertical="bottom")
        for name in Figures().values():
            table.add_column(_HEADS.get(name, name), justify="right", no_wrap=True)
        for job, figures in self._rows.items():
            style = "bold" if job == _TOTAL else ""
            table.add_row(job, *(f"{n:,}" for n in figures.values().values()), style=style)
        return table

    def _lines(self) -> RenderResult:
        for job, figures in self._rows.items():
            facts = (f"{name.replace('_', '-')} {n:,}" for name, n in figures.values().items())
            yield Text(f"{job}: {', '.join(facts)}")


def explained(lot: Remaining) -> str:
    """Say what lies in a queue, and why it may stay there."""
    jobs = ", ".join(f"{job} {count}" for job, count in lot.jobs.items())
    text = f"in {lot.queue}: {lot.count} ({jobs}): {lot.error}"
    if lot.queue == IGNORED_QUEUE:
        return f"{text}. Nothing is to be done: they expire there after 14 days."
    return text


def progress_of(figures: Mapping[str, Figures]) -> str:
    """Return how many messages of each job have come to their end, in a line."""
    return ", ".join(f"{job} {has.settled:,} of {has.expected:,}" for job, has in figures.items())
