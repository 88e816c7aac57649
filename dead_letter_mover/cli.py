"""The command line."""

import os
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Protocol

import click

from dead_letter_mover.archive import ArchiveError, NoArchive, open_archive
from dead_letter_mover.letters import Letter
from dead_letter_mover.mover import Archive, Broker, Done, Mover
from dead_letter_mover.pace import Pace
from dead_letter_mover.plan import Fate, Plan
from dead_letter_mover.progress import progress
from dead_letter_mover.report import ForMachines, ForPeople, Report, printable
from dead_letter_mover.rules import Action, Rules, read_rules
from delivery.errors import DeliveryError
from models.queues import ALL_QUEUES


class Queue(Broker, Protocol):
    """A broker that can also be looked through."""

    def letters(self) -> Iterator[Letter]:
        """Yield every message without locking any."""


#: Opens a queue, or its dead-letter queue.
OpenQueue = Callable[[str, bool], AbstractContextManager[Queue]]

_DONE, _FAILED, _LEFT, _STOPPED = 0, 1, 3, 130


def _open_queue(queue: str, dead_letters: bool) -> AbstractContextManager[Queue]:  # noqa: FBT001 - a port of one method
    from dead_letter_mover.broker import open_broker  # noqa: PLC0415 - heavy: imported when used

    return open_broker(os.environ, queue, dead_letters=dead_letters)


def _now() -> datetime:
    return datetime.now(UTC)


@click.command(
    epilog="""\b
Exit codes:
  0    done
  1    failed; what was not done is where it was, start again
  2    wrong usage
  3    done, but some messages could not be moved, and are where they were
  130  stopped by Ctrl-C or a signal
"""
)
@click.argument("queue", type=click.Choice(ALL_QUEUES), metavar="QUEUE")
@click.option("--dead-letter", is_flag=True, help="QUEUE's dead-letter queue.")
@click.option(
    "--rules",
    "rules_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What becomes of which error; a file of YAML or JSON.",
)
@click.option("--apply", is_flag=True, help="Do it; otherwise it is only shown.")
@click.option(
    "--archive",
    "archive_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Messages that do not go back are written to this file first.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Do it to so many messages at most.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True, max=100_000),
    help="So many messages a second at most.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a line to stdout.")
@click.pass_context
def main(  # noqa: PLR0913 - one for each option
    context: click.Context,
    queue: str,
    *,
    dead_letter: bool,
    rules_file: Path | None,
    apply: bool,
    archive_file: Path | None,
    limit: int | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Show what lies in QUEUE, grouped by error, and bring back what the rules say.

    Numbers, GUIDs and quoted texts are left out of the errors, so that one reason is one group.
    Nothing is locked, moved or removed without --apply. With it, messages go back to the queue that
    they came from, without their error properties; of several changes of one record only the newest
    does. A message is sent before it is removed: an interrupted run loses nothing, and may leave
    up to 200 messages twice, which is harmless. The connection comes from the setting
    SYNC_SERVICE_BUS, a connection string, or from SYNC_SERVICE_BUS__fullyQualifiedNamespace for an
    identity.

    \b
    Examples:
      python -m dead_letter_mover sbqnormal --dead-letter
      python -m dead_letter_mover sbqnormal --dead-letter --rules rules.yaml
      python -m dead_letter_mover sbqtransitivenormal --rules rules.yaml --apply --limit 10
      python -m dead_letter_mover sbqnormal --dead-letter --rules rules.yaml --apply \\
        --archive removed.jsonl
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    if apply and rules_file is None:
        msg = "--apply needs --rules FILE: what matches no rule stays where it is"
        raise click.UsageError(msg)
    place = f"{queue}/$deadletterqueue" if dead_letter else queue
    report: Report = ForMachines(place, _now) if as_json else ForPeople(_now)
    open_: OpenQueue = context.obj or _open_queue
    with _sentences(place), ExitStack() as stack:
        rules = read_rules(rules_file) if rules_file else None
        if apply and archive_file is None and _skips(rules):
            msg = "a rule says Skip: name a file with --archive, to which its messages are written"
            raise click.UsageError(msg)
        broker = stack.enter_context(open_(queue, dead_letter))
        plan = stack.enter_context(Plan(queue, rules))
        _look(plan, broker, report)
        if not apply:
            return
        archive: Archive = NoArchive()
        if archive_file:
            archive = stack.enter_context(open_archive(archive_file, place, _now))
        elif superseded := plan.count(Fate.SUPERSEDE):
            msg = (
                f"{superseded} messages are superseded by newer changes of their records; "
                "name a file with --archive, to which they are written"
            )
            raise click.UsageError(msg)
        mover = Mover(place, plan, broker, archive)
        context.exit(_move(mover, plan, report, limit, rate))


def _skips(rules: Rules | None) -> bool:
    return rules is not None and any(rule.action is Action.SKIP for rule in rules.rules)


def _look(plan: Plan, broker: Queue, report: Report) -> None:
    with progress("looking through the queue", None) as shown:

        def watched() -> Iterator[Letter]:
            for letter in broker.letters():
                shown.advance(1)
                yield letter

        plan.fill(watched())
    groups = plan.groups()
    for group in groups:
        click.echo(report.group(group))
    total = sum(group.count for group in groups)
    click.echo(f"{total} messages, {len(groups)} groups", err=True)


def _move(mover: Mover, plan: Plan, report: Report, limit: int | None, rate: float | None) -> int:
    """Return the exit status."""
    stop = threading.Event()
    pace = Pace(rate, time.monotonic, stop.wait)
    counts: Counter[Done] = Counter()
    most = plan.left() if limit is None else min(limit, plan.left())
    try:
        with (
            _stopping(stop),
            progress("moving", most) as shown,
            # So that locks are given back while there still is a connection.
            closing(mover.run(most, pace.at_once, stop.is_set)) as batches,
        ):
            for batch in batches:
                for moved in batch:
                    shown.say(report.moved(moved))
                counts.update(moved.done for moved in batch)
                shown.advance(len(batch))
                pace.after(len(batch))
    finally:
        click.echo(report.summary(counts, plan.left()), err=isinstance(report, ForPeople))
    if stop.is_set():
        return _STOPPED
    short = counts[Done.LEFT] or counts.total() < most or plan.count(Fate.STRAY)
    return _LEFT if short else _DONE


@contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """End after the batch at hand at the first Ctrl-C or SIGTERM, at once at the second."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(_number: int, _frame: FrameType | None) -> None:
        restore()
        stop.set()

    for number in numbers:
        signal.signal(number, note)
    try:
        yield
    finally:
        restore()


@contextmanager
def _sentences(place: str) -> Iterator[None]:
    """Turn what goes wrong into one sentence."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except (ArchiveError, DeliveryError) as error:
        raise click.ClickException(printable(*str(error).splitlines())) from error
    except sqlite3.Error as error:
        msg = f"the temporary folder cannot hold what lies in {place}: {error}; make room"
        raise click.ClickException(msg) from error
    except OSError as error:
        if error.filename is None:
            raise click.ClickException(_broker_failed(place, error)) from error
        msg = f"{error.filename}: {error.strerror}; check the path and its permissions"
        raise click.ClickException(msg) from error
    except Exception as error:
        raise click.ClickException(_broker_failed(place, error)) from error


def _broker_failed(place: str, error: Exception) -> str:
    # The SDK's texts are long and of many kinds; the first line names the reason.
    reason = (str(error).partition("\n")[0] or type(error).__name__)[:300]
    return f"{place}: the broker failed: {printable(reason)}; nothing is lost, start again"
