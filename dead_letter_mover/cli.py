"""The command line."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC

import click

from dead_letter_mover.groups import Group, by_error
from dead_letter_mover.letters import Letter, letters_in
from delivery.errors import DeliveryError
from models.queues import ALL_QUEUES
from services.azure_access import service_bus_client

#: Gives the messages of a queue, or of its dead-letter queue.
OpenQueue = Callable[[str, bool], AbstractContextManager[Iterator[Letter]]]


@contextmanager
def open_queue(queue: str, dead_letters: bool) -> Iterator[Iterator[Letter]]:  # noqa: FBT001 - a port of one method
    """Connect by the setting SYNC_SERVICE_BUS, as the app does."""
    from azure.servicebus import ServiceBusSubQueue  # noqa: PLC0415 - heavy: imported when used

    sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead_letters else None
    with (
        service_bus_client(os.environ) as client,
        client.get_queue_receiver(queue, sub_queue=sub_queue, socket_timeout=0.05) as receiver,
    ):
        yield letters_in(receiver)


@click.command(
    epilog="""\b
Exit codes:
  0  done
  1  failed
  2  wrong usage
"""
)
@click.argument("queue", type=click.Choice(ALL_QUEUES), metavar="QUEUE")
@click.option("--dead-letter", is_flag=True, help="Look into QUEUE's dead-letter queue.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document to stdout.")
@click.pass_context
def main(context: click.Context, queue: str, *, dead_letter: bool, as_json: bool) -> None:
    """Show what lies in QUEUE, grouped by error; nothing is locked, moved or removed.

    Numbers, GUIDs and quoted texts are left out of the errors, so that one reason is one group.
    The connection comes from the setting SYNC_SERVICE_BUS, a connection string, or from
    SYNC_SERVICE_BUS__fullyQualifiedNamespace for an identity.

    \b
    Examples:
      python -m dead_letter_mover sbqnormal --dead-letter
      python -m dead_letter_mover sbqtransitivenormal --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    open_: OpenQueue = context.obj or open_queue
    try:
        with open_(queue, dead_letter) as letters:
            groups = by_error(letters)
    except DeliveryError as error:
        raise click.ClickException(str(error)) from error
    except Exception as error:
        # The SDK's texts are long and of many kinds; the first line names the reason.
        reason = (str(error).partition("\n")[0] or type(error).__name__)[:300]
        msg = f"{queue}: the broker could not be read: {reason}"
        raise click.ClickException(msg) from error
    if as_json:
        click.echo(json.dumps([_to_json(group) for group in groups], ensure_ascii=False))
    else:
        _print(groups)


def _print(groups: list[Group]) -> None:
    for group in groups:
        jobs = ", ".join(f"{job or '(no job)'} {count}" for job, count in group.jobs.most_common())
        click.echo(f"{group.count:7}  {group.error}")
        click.echo(f"{'':7}  since {_since(group)}; {jobs}")
    total = sum(group.count for group in groups)
    click.echo(f"{total} messages, {len(groups)} reasons", err=True)


def _since(group: Group) -> str:
    moment = group.oldest
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment else "an unknown time"


def _to_json(group: Group) -> dict[str, object]:
    return {
        "error": group.error,
        "count": group.count,
        "jobs": dict(group.jobs),
        "oldest": group.oldest.isoformat() if group.oldest else None,
    }
