"""What the demonstration says, where it goes to a log, and where a terminal is narrow."""

import io

import pytest
from rich.console import Console

from devstack.demo.books import Figures
from devstack.demo.narration import LiveNarrator, PlainNarrator
from devstack.demo.report import FigureTable

FIGURES = {
    job: Figures(detected=21_300, sent=21_300, success=count, dead_lettered=50)
    for job, count in (("customers-to-erp", 5_000), ("orders-to-erp", 20_000))
}


class Log:
    """A plain narrator whose clock is ours."""

    def __init__(self) -> None:
        self.now = 0.0
        self._file = io.StringIO()
        self.narrator = PlainNarrator(Console(file=self._file, width=40), lambda: self.now)

    def text(self) -> str:
        return self._file.getvalue()

    def lines(self) -> list[str]:
        return [line.partition("  ")[2] for line in self.text().splitlines()]


def printed(width: int, what: object, encoding: str = "utf-8") -> str:
    file = io.TextIOWrapper(io.BytesIO(), encoding, errors="replace")
    Console(file=file, width=width).print(what)
    file.flush()
    return file.buffer.getvalue().decode(encoding)


def test_progress_is_a_line_every_two_seconds_at_most() -> None:
    log = Log()
    log.narrator.begin("run 1")
    for count in range(100):
        log.now += 0.1
        log.narrator.watch({"orders": Figures(sent=100, success=count)})
    assert 4 <= len(log.lines()) <= 6
    assert log.lines()[1] == "orders 19 of 100"


def test_what_stands_still_is_not_said_twice() -> None:
    log = Log()
    log.narrator.begin("run 1")
    for _ in range(100):
        log.now += 0.1
        log.narrator.watch(FIGURES)
    assert len(log.lines()) == 2


def test_a_silence_is_broken_after_four_seconds() -> None:
    log = Log()
    log.narrator.begin("run 2")
    for _ in range(90):
        log.now += 0.1
        log.narrator.break_silence()
    assert log.lines() == ["run 2", "… run 2 (4 s)", "… run 2 (8 s)"]


def test_a_log_has_all_that_somebody_else_said_and_a_terminal_one_line_of_it() -> None:
    log = Log()
    log.narrator.quote("error " * 30)
    assert log.text().count("error") == 30
    terminal = io.StringIO()
    LiveNarrator(Console(file=terminal, width=40)).quote("error " * 30)
    assert len(terminal.getvalue().splitlines()) == 1


def test_a_line_of_a_log_stays_one_line() -> None:
    log = Log()
    log.narrator.say("long " * 30)
    assert len(log.lines()) == 1


@pytest.mark.parametrize("width", [20, 40, 79, 80, 100, 200])
def test_the_figures_fit_any_width_and_none_is_lost(width: int) -> None:
    text = printed(width, FigureTable(FIGURES))
    assert max(map(len, text.splitlines())) <= width
    assert text.replace("\n", "").count("21,300") == 4
    assert "42,600" in text
    assert ("tran-" in text) == (width >= 80), "a table where there is room for one"


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_live_display_fits_any_terminal(width: int, encoding: str) -> None:
    narrator = LiveNarrator(Console(file=io.TextIOWrapper(io.BytesIO(), encoding)))
    narrator.begin("run 1, of which there is much to say " * 3)
    narrator.watch(FIGURES)
    lines = printed(width, narrator, encoding).splitlines()
    assert not lines[-1].strip(), "room for the ^C of a terminal"
    assert max(map(len, lines)) <= width
    assert any("0 s, 0 s in all" in line for line in lines)
