"""The command line."""

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import click

from dead_letter_mover.archive import NoArchive, open_archive
from dead_letter_mover.failures import sentences
from dead_letter_mover.letters import Letter
from dead_letter_mover.mover import Archive, Broker, Done, Mover
from dead_letter_mover.pace import Pace
from dead_letter_mover.plan import Fate, Plan
from dead_letter_mover.progress import progress
from dead_letter_mover.report import ForMachines, ForPeople, Report, Sums
from dead_letter_mover.rules import Action, Rules, read_rules
from models.queues import ALL_QUEUES
from services.signals import interruptible, stopping


class Queue(Broker, Protocol):
    """A broker that can also be looked through."""

    def letters(self) -> Iterator[Letter]:
        """Yield every message without locking any."""


#: Opens a queue, or its dead-letter queue.
OpenQueue = Callable[[str, bool], AbstractContextManager[Queue]]

_ARCHIVED = (Fate.SKIP, Fate.SUPERSEDE)

_DONE, _LEFT, _STOPPED = 0, 3, 130


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
    type=click.FloatRange(min=0.01, max=100_000),
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
    _check(apply, rules_file, archive_file, rate)
    place = f"{queue}/$deadletterqueue" if dead_letter else queue
    report: Report = ForMachines(place, _now) if as_json else ForPeople(_now)
    open_: OpenQueue = context.obj or _open_queue
    with _stopped_by_signals(context), sentences(place), ExitStack() as stack:
        rules = read_rules(rules_file) if rules_file else None
        if apply and archive_file is None and _skips(rules):
            msg = "a rule says Skip: name a file with --archive, to which its messages are written"
            raise click.UsageError(msg)
        broker = stack.enter_context(open_(queue, dead_letter))
        plan = stack.enter_context(Plan(queue, rules))
        _look(plan, broker, report)
        if not apply:
            if archive_file is None and plan.count(*_ARCHIVED):
                click.echo("--apply will need --archive FILE for what is taken out", err=True)
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


@contextmanager
def _stopped_by_signals(context: click.Context) -> Iterator[None]:
    try:
        with interruptible():
            yield
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        context.exit(_STOPPED)


def _check(
    apply: bool,  # noqa: FBT001 - as the option
    rules_file: Path | None,
    archive_file: Path | None,
    rate: float | None,
) -> None:
    """Refuse what makes no sense together."""
    if apply and rules_file is None:
        msg = "--apply needs --rules FILE: what matches no rule stays where it is"
        raise click.UsageError(msg)
    if rules_file and archive_file and archive_file.exists() and archive_file.samefile(rules_file):
        msg = "--archive names the rules file, which would be written to"
        raise click.UsageError(msg)
    if rate is not None and not math.isfinite(rate):
        msg = "--rate is a number of messages a second"
        raise click.UsageError(msg)


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
    click.echo(f"messages: {total}, groups: {len(groups)}", err=True)


def _move(mover: Mover, plan: Plan, report: Report, limit: int | None, rate: float | None) -> int:
    """Return the exit status."""
    stop = threading.Event()
    pace = Pace(rate, time.monotonic, stop.wait)
    counts: Counter[Done] = Counter()
    most = plan.left() if limit is None else min(limit, plan.left())
    gone, not_handed_out = 0, 0
    try:
        with (
            stopping(stop),
            progress("moving", most) as shown,
            # So that locks are given back while there still is a connection.
            closing(mover.run(most, pace.at_once, stop.is_set)) as batches,
        ):
            for batch in batches:
                counts.update(moved.done for moved in batch)
                for moved in batch:
                    shown.say(report.moved(moved))
                shown.advance(len(batch))
                pace.after(len(batch))
        if counts.total() < most and not stop.is_set():
            gone, not_handed_out = mover.unreached()
    finally:
        sums = Sums(
            counts,
            plan.left(),
            gone,
            not_handed_out,
            stray=plan.count(Fate.STRAY),
            unremoved=mover.unremoved,
        )
        click.echo(report.summary(sums), err=isinstance(report, ForPeople))
    if stop.is_set():
        return _STOPPED
    return _LEFT if sums.is_short else _DONE
