"""How the figures of the demonstration look: one table, or lines where that is too wide."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from devstack.demo.books import IGNORED_QUEUE, TOGETHER, Claim, Figures, Remaining

#: Wider than any table of ours.
_ANY = 1_000

#: How the names of the figures are broken where they head a column.
_HEADS = {"transitive": "tran-\nsitive", "dead_lettered": "dead-\nlettered"}

#: Above the table, so that a small terminal has room for both the table and what follows.
NOTES = (
    "sent: the Service Bus emulator's count, without what came back or was put off",
    "requeued: what the dead-letter mover says that it sent back",
    "all others: the app's own metrics",
    "failed counts attempts, three a message here; otherwise ten, over six minutes",
)


class FigureTable:
    """One row a job; fits itself to the width there is."""

    def __init__(self, figures: Mapping[str, Figures]) -> None:
        self._rows = dict(figures)
        if len(figures) > 1:
            self._rows[TOGETHER] = sum(figures.values(), start=Figures())

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
            style = "bold" if job == TOGETHER else ""
            table.add_row(job, *(f"{n:,}" for n in figures.values().values()), style=style)
        return table

    def _lines(self) -> RenderResult:
        for job, figures in self._rows.items():
            facts = (f"{name.replace('_', '-')} {n:,}" for name, n in figures.values().items())
            yield Text(f"{job}: {', '.join(facts)}")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why so many messages of a job were ignored, in the story's words."""

    count: int
    words: str


def left_in_queues(lots: Iterable[Remaining], reasons: Mapping[str, Reason]) -> Iterator[str]:
    """Say in lines what lies in the queues, and why it may stay in that of the ignored ones."""
    by_queue: dict[str, list[Remaining]] = {}
    for lot in lots:
        by_queue.setdefault(lot.queue, []).append(lot)
    for queue, its_lots in by_queue.items():
        jobs = sum((Counter(lot.jobs) for lot in its_lots), start=Counter())
        if queue != IGNORED_QUEUE:
            yield f"in {queue}: {jobs.total():,}"
            yield from (f"  {job} {count:,}" for job, count in jobs.items())
        else:
            yield (
                f"in {queue}: {jobs.total():,}, older than what the ERP has; they expire in 14 days"
            )
            for job, count in jobs.items():
                yield from (f"  {line}" for line in _why(job, count, reasons.get(job)))
        yield from (f"  {lot.count:,}, for example: {lot.error}" for lot in its_lots)


def _why(job: str, count: int, reason: Reason | None) -> Iterator[str]:
    known = min(count, reason.count) if reason else 0
    if reason and known:
        yield f"{job} {known:,}: {reason.words}"
    if others := count - known:
        yield f"{job} {others:,}: a newer change had arrived first"


def balanced(claims: Iterable[Claim], width: int) -> Iterator[str]:
    """Say in lines what has been found to be equal; what is too wide for one line takes two."""
    for claim in claims:
        words, numbers = f"  {claim.words()}:", claim.numbers()
        if len(words) + 1 + len(numbers) <= width:
            yield f"{words} {numbers}"
        else:
            yield words
            yield f"    {numbers}"


def reached(has: Figures) -> str:
    """Return how many changes of a job have reached the ERP, and how many wait elsewhere."""
    aside = f", {has.set_aside:,} set aside" if has.set_aside > 0 else ""
    return f"{has.done:,} of {has.total:,}{aside}"


def progress_of(figures: Mapping[str, Figures]) -> str:
    """Return the same of all jobs, in a line."""
    return "; ".join(f"{job} {reached(has)}" for job, has in figures.items())
