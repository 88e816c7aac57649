"""The command `jobs`."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from operator_console.console import (
    EXIT_CODES,
    Console,
    as_json_option,
    folder_type,
    print_json,
    print_table,
    shown,
    working,
)
from operator_console.job_overview import Due, JobLine, overview
from operator_console.local_files import read_folder
from operator_console.published_files import read_published


@click.command(epilog=EXIT_CODES)
@click.option("--folder", type=folder_type, help="Take the jobs of a folder, not the app's.")
@as_json_option
@click.pass_obj
def jobs(console: Console, folder: Path | None, *, as_json: bool) -> None:
    """List all jobs in the order in which they run, with when and how far they ran.

    Times are in UTC. NEXT DUE is `every tick` without a schedule, and `now` where the next tick
    of detection runs the job.

    \b
    Examples:
      python -m operator_console jobs
      python -m operator_console jobs --folder configuration
      python -m operator_console jobs --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    local = read_folder(folder).validated() if folder else None
    with console.storage() as storage, working("reading jobs and watermarks"):
        configuration = local or read_published(storage.container)
        lines = list(overview(configuration, storage.watermarks(), console.now()))
    if as_json:
        print_json([_to_json(line) for line in lines])
    else:
        print_table(_HEADERS, _to_rows(lines))


_HEADERS = (
    *("ORDER", "JOB", "ENABLED", "PRIORITY", "SCHEDULE"),
    *("NEXT DUE", "LAST RUN", "WATERMARK"),
)


def _to_rows(lines: Iterable[JobLine]) -> Iterable[tuple[str, ...]]:
    for line in lines:
        job = line.job
        yield (
            str(job.order),
            job.name,
            "yes" if job.enabled else "no",
            job.priority,
            f"{job.schedule} {job.time_zone}" if job.schedule else "-",
            _due(line),
            shown(line.last_run) or "-",
            line.watermark or "-",
        )


def _due(line: JobLine) -> str:
    match line.due:
        case Due.EVERY_TICK:
            return "every tick"
        case Due.NOW:
            return "now"
        case Due.NEVER:
            return "-"
        case Due.LATER:
            return shown(line.next_due)


def _to_json(line: JobLine) -> dict[str, Any]:
    job = line.job
    return {
        "job": job.name,
        "order": job.order,
        "enabled": job.enabled,
        "priority": job.priority,
        "schedule": job.schedule,
        "timeZone": job.time_zone,
        "due": line.due,
        "nextDue": line.next_due,
        "lastRun": line.last_run,
        "watermark": line.watermark,
    }
