"""The command `probe-azure`."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from operator_console.console import Console, as_json_option, print_json, talk
from operator_console.probe.assumptions import ASSUMPTIONS
from operator_console.probe.guard import why_not
from operator_console.probe.run import Report, Run
from operator_console.probe.scene import Scene
from operator_console.probe.sending import LINKS_COME_BACK
from operator_console.probe.verdicts import Assumption, Finding, Verdict, spoken
from operator_console.probe.wanted import wanted_rules
from services.azure_access import SERVICE_BUS
from services.signals import interruptible

_QUEUES = Path(__file__).parents[1] / "servicebus.json"

#: Longer than the ten minutes after which Azure detaches links.
_IDLE_SECONDS = 660

_DAY_SECONDS = 86_400

_EXIT_CODES = """\
\b
Exit codes:
  0  done: everything that was tested holds
  1  something does not hold, failed, was stopped or could not be removed
  2  wrong usage: also a queue of the app
"""


@click.command("probe-azure", epilog=_EXIT_CODES)
@click.argument("queue", required=False)
@click.option(
    "--idle",
    "idle_seconds",
    type=click.IntRange(0, _DAY_SECONDS),
    default=_IDLE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to leave links alone; Azure detaches them after 10 minutes. 0 leaves it out.",
)
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([assumption.id for assumption in ASSUMPTIONS]),
    metavar="ID",
    help="Test this assumption only; may be given several times. --list shows the ids.",
)
@click.option(
    "--list",
    "--dry-run",
    "only_list",
    is_flag=True,
    help="Show what would be tested, without connecting.",
)
@as_json_option
@click.pass_obj
def probe_azure(  # noqa: PLR0913 - one for each option
    console: Console,
    queue: str | None,
    *,
    idle_seconds: int,
    only: Sequence[str],
    only_list: bool,
    as_json: bool,
) -> None:
    """Test on QUEUE what Gleichlauf assumes of Azure Service Bus.

    QUEUE is one that was made for this, in the namespace of SYNC_SERVICE_BUS: empty, with nobody
    else who sends or receives, and with a lock duration of 10 seconds. The app's own queues and
    queues that are not empty are refused. The probe touches its own messages only, and removes them
    in the end, also after Ctrl-C. The connection is found as that of the storage account.

    \b
    Examples:
      python -m operator_console probe-azure --list
      python -m operator_console probe-azure gleichlauf-probe
      python -m operator_console probe-azure gleichlauf-probe --idle 0 --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    chosen = [each for each in ASSUMPTIONS if not only or each.id in only]
    if only_list:
        _show(chosen, as_json=as_json)
        return
    if queue is None:
        msg = "name the queue that was made for the probe; --list needs none"
        raise click.UsageError(msg)
    if trouble := why_not(queue):
        raise click.UsageError(trouble)
    report = _probe(console, queue, chosen, timedelta(seconds=idle_seconds), as_json=as_json)
    _tell(report, as_json=as_json)
    click.get_current_context().exit(0 if report.is_good else 1)


def _probe(
    console: Console,
    name: str,
    chosen: Sequence[Assumption],
    idle: timedelta,
    *,
    as_json: bool,
) -> Report:
    settings = console.service_bus_settings()

    def announce(finding: Finding) -> None:
        if not as_json:
            _print(finding)

    with interruptible(), console.open_queue(settings.values, name) as queue:
        scene = Scene(queue, console.clock, idle, wanted=wanted_rules(_QUEUES.read_bytes()))
        talk(f"queue: {name}, {SERVICE_BUS} {settings.origin}; run {scene.run}")
        if idle and any(each.id == LINKS_COME_BACK for each in chosen):
            talk(f"in the end it waits for {spoken(idle)}; see --idle")
        return Run(scene, name, chosen, announce=announce, say=talk).execute()


def _show(chosen: Sequence[Assumption], *, as_json: bool) -> None:
    if as_json:
        print_json([_declared(assumption) for assumption in chosen])
        return
    for assumption in chosen:
        click.echo(f"{assumption.id}\n  {assumption.sentence}\n  {_rests(assumption)}")


def _print(finding: Finding) -> None:
    assumption = finding.assumption
    click.echo(
        f"{finding.verdict}: {assumption.id}\n  {assumption.sentence}\n"
        f"  seen: {finding.seen}\n  {_rests(assumption)}"
    )


def _rests(assumption: Assumption) -> str:
    return f"rests on it: {assumption.rests_on_it} (docs/{assumption.where})"


def _tell(report: Report, *, as_json: bool) -> None:
    if as_json:
        print_json(_document(report))
    else:
        for finding in report.unreached:
            _print(finding)
    counts = ", ".join(f"{verdict} {report.count(verdict)}" for verdict in Verdict)
    talk(f"run {report.run}: {counts}")
    if report.trouble:
        talk(f"the run ended early: {report.trouble}")
    if report.left:
        talk(
            f"not removed: {report.left}; these messages of the probe are yours to delete, in the "
            "portal's Service Bus Explorer"
        )


def _document(report: Report) -> dict[str, Any]:
    return {
        "queue": report.queue,
        "run": report.run,
        "startedAt": report.started,
        "endedAt": report.ended,
        "trouble": report.trouble or None,
        "notRemoved": report.left or None,
        "counts": {verdict: report.count(verdict) for verdict in Verdict},
        "assumptions": [
            {
                **_declared(finding.assumption),
                "verdict": finding.verdict,
                "seen": finding.seen,
            }
            for finding in report.findings
        ],
    }


def _declared(assumption: Assumption) -> dict[str, str]:
    return {
        "id": assumption.id,
        "assumption": assumption.sentence,
        "restsOnIt": assumption.rests_on_it,
        "where": f"docs/{assumption.where}",
    }
