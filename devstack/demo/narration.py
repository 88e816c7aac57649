"""Tells what the demonstration does: live on a terminal, in plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from devstack.demo.books import Figures
from devstack.demo.report import FigureTable, progress_of, reached

#: Plain lines about the same thing come no closer, and nothing is silent for longer.
_APART_SECONDS, _SILENT_SECONDS = 2.0, 4.0
_WATCH_SECONDS = 0.25

#: Where there is no terminal whose width could be asked for.
_PLAIN_WIDTH = 100


class Narrator(Protocol):
    """Whom the demonstration tells what it does."""

    def begin(self, activity: str) -> None:
        """Say what is done from now on; it is what everything is waiting for."""

    def say(self, text: str) -> None:
        """State a fact."""

    def quote(self, text: str) -> None:
        """Show what somebody else says, in a line below the fact."""

    def watch(self, figures: Mapping[str, Figures]) -> None:
        """Show how far the messages are. May be called as often as one likes."""


def console() -> Console:
    """Return standard output; rich heeds NO_COLOR, and what the terminal can do."""
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def narrating() -> Iterator[Narrator]:
    """Give a narrator that fits where the output goes."""
    out = console()
    if sys.stdout.isatty() and not out.is_dumb_terminal:
        narrator = LiveNarrator(out)
        with Live(narrator, console=out, refresh_per_second=5, transient=True):
            yield narrator
        return
    plain = PlainNarrator(out)
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(_WATCH_SECONDS):
            plain.break_silence()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield plain
    finally:
        stopped.set()
        thread.join()


def stamped(text: str) -> str:
    """Return a line with the time."""
    return f"{time.strftime('%H:%M:%S')}  {text}"


def quoted(text: str) -> str:
    """Return a line that stands below one with the time."""
    return f"          {text}"


class OneLine:
    """A line that ends where the terminal does; rich forgets a Text's `no_wrap` on its way."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = Text(self._text)
        text.truncate(options.max_width, overflow="ellipsis")
        yield text


class PlainNarrator:
    """Lines, few enough to be kept in a log."""

    def __init__(self, out: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._clock = clock
        self._lock = threading.RLock()
        self._activity = ""
        self._since = self._said = clock()
        self._progress = ""

    def begin(self, activity: str) -> None:
        """Say it, and say it again where it takes long."""
        with self._lock:
            self._activity, self._progress = activity, ""
            self._since = self._clock()
            self.say(activity)

    def say(self, text: str) -> None:
        """Print it with the time."""
        with self._lock:
            # A line is a line: where the terminal ends is nothing to a log.
            self._out.print(stamped(text), soft_wrap=True)
            self._out.file.flush()
            self._said = self._clock()

    def quote(self, text: str) -> None:
        """Print all of it, in one line."""
        with self._lock:
            self._out.print(quoted(text), soft_wrap=True)

    def watch(self, figures: Mapping[str, Figures]) -> None:
        """Print what has changed, unless something was said just now."""
        progress = progress_of(figures)
        with self._lock:
            if progress != self._progress and self._clock() - self._said >= _APART_SECONDS:
                self._progress = progress
                self.say(progress)

    def break_silence(self) -> None:
        """Say what everything is waiting for, where nothing was said for long."""
        with self._lock:
            now = self._clock()
            if now - self._said >= _SILENT_SECONDS:
                self.say(f"… {self._activity} ({now - self._since:.0f} s)")


class LiveNarrator:
    """The same lines, and below them what is being done, redrawn as it goes."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._spinner = Spinner("dots" if _can_write("⠋", out) else "line")
        self._figures: Mapping[str, Figures] = {}
        self._activity = ""
        self._since = self._start = time.monotonic()

    def begin(self, activity: str) -> None:
        """Print it, and keep it in sight."""
        self._activity = activity
        self._since = time.monotonic()
        self._out.print(Text(stamped(activity), style="bold"))

    def say(self, text: str) -> None:
        """Print it with the time, above what is redrawn."""
        self._out.print(Text(stamped(text)))

    def quote(self, text: str) -> None:
        """Print what the terminal has room for in one line."""
        self._out.print(OneLine(quoted(text)))

    def watch(self, figures: Mapping[str, Figures]) -> None:
        """Have it drawn at the next opportunity."""
        self._figures = figures

    def __rich__(self) -> RenderableType:
        now = time.monotonic()
        state = OneLine(
            f"{self._spinner.render(now)} "
            f"{now - self._since:.0f} s, {now - self._start:.0f} s in all: {self._activity}"
        )
        figures = self._figures
        shown = (_bars(figures), Text(), FigureTable(figures)) if figures else ()
        # The last line is empty: a terminal writes its ^C there, and in a line that is full it
        # would go on to the next one, and nothing would be redrawn where it was.
        return Group(state, *shown, Text())


def _bars(figures: Mapping[str, Figures]) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0), expand=False)
    grid.add_column(no_wrap=True)
    grid.add_column(max_width=30, min_width=5)
    grid.add_column(no_wrap=True)
    for job, has in figures.items():
        bar = ProgressBar(total=max(1, has.total), completed=min(has.done, has.total))
        grid.add_row(job, bar, reached(has))
    return grid


def _can_write(text: str, out: Console) -> bool:
    try:
        text.encode(out.encoding)
    except UnicodeEncodeError:
        return False
    return True
