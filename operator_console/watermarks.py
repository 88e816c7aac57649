"""The commands `watermarks list`, `set` and `reset`."""

from typing import Any

import click

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.job import Job
from operator_console.console import (
    EXIT_CODES,
    Console,
    as_json_option,
    print_json,
    print_table,
    shown,
    talk,
    working,
)
from operator_console.published_files import read_published
from operator_console.storage import Storage
from operator_console.watermark_text import is_ahead, to_watermark
from services.detection.watermarks import StoredWatermark


@click.group(epilog=EXIT_CODES)
def watermarks() -> None:
    """List, set and reset how far jobs have read their sources.

    \b
    Examples:
      python -m operator_console watermarks list
      python -m operator_console watermarks set customers-to-erp 2026-11-30T00:00:00Z
      python -m operator_console watermarks reset customers-to-erp
    """  # noqa: D301 - \b is click's mark for lines that stay as they are


@watermarks.command("list", epilog=EXIT_CODES)
@as_json_option
@click.pass_obj
def list_(console: Console, *, as_json: bool) -> None:
    """List all rows, also those of jobs that are no longer configured.

    \b
    Examples:
      python -m operator_console watermarks list
      python -m operator_console watermarks list --json
    """  # noqa: D301 - as above
    with console.storage() as storage, working("reading watermarks"):
        rows = sorted(storage.watermarks().items())
        configuration = _published_or_none(storage)
    known = None if configuration is None else configuration.jobs
    lines = [(name, row, None if known is None else name in known) for name, row in rows]
    if as_json:
        print_json([_to_json(*line) for line in lines])
    else:
        print_table(_HEADERS, (_to_cells(*line) for line in lines))


_HEADERS = ("JOB", "WATERMARK", "LAST RUN", "CONFIGURED")
_CONFIGURED = {None: "?", True: "yes", False: "no"}


def _to_cells(job: str, row: StoredWatermark, configured: bool | None) -> tuple[str, ...]:  # noqa: FBT001 - a column
    return (
        job,
        row.watermark or "-",
        shown(row.last_cron_run) or "-",
        _CONFIGURED[configured],
    )


def _to_json(job: str, row: StoredWatermark, configured: bool | None) -> dict[str, Any]:  # noqa: FBT001 - a column
    return {
        "job": job,
        "watermark": row.watermark,
        "lastRun": row.last_cron_run,
        "configured": configured,
    }


@watermarks.command("set", epilog=EXIT_CODES)
@click.argument("job")
@click.argument("value")
@click.option("--force", is_flag=True, help="Write also for a job that is not configured.")
@as_json_option
@click.pass_obj
def set_(console: Console, job: str, value: str, *, force: bool, as_json: bool) -> None:
    """Make JOB read its source from VALUE on at its next run; also before its first run.

    VALUE has to be of the job's watermark type. For dates and times it may be `now` or `today`,
    which begins in the job's time zone; stored is UTC. Changes between the old and a later new
    watermark are not read. A run that is going on writes its own watermark when it ends.
    A negative number comes after `--`.

    \b
    Examples:
      python -m operator_console watermarks set customers-to-erp today
      python -m operator_console watermarks set customers-to-erp 2026-11-30T12:00:00Z
      python -m operator_console watermarks set orders-to-erp -- -1
    """  # noqa: D301 - as above
    with console.storage() as storage:
        known = _job(storage, job, force=force)
        try:
            watermark = to_watermark(value, known, console.now())
        except ValueError as error:
            msg = f"job {job!r}: {error}"
            raise click.ClickException(msg) from error
        before = storage.watermarks().get(job)
        storage.set_watermark(job, watermark)
    if known and is_ahead(watermark, known, console.now()):
        talk("note: this watermark lies in the future; changes before it are not read")
    _report(job, before.watermark if before else None, watermark, as_json=as_json)


@watermarks.command(epilog=EXIT_CODES)
@click.argument("job")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json_option
@click.pass_obj
def reset(console: Console, job: str, *, yes: bool, as_json: bool) -> None:
    """Make JOB read its source from the beginning at its next run.

    Asks first; without a terminal it needs --yes. A run that is going on writes its own
    watermark when it ends.

    \b
    Examples:
      python -m operator_console watermarks reset customers-to-erp
      python -m operator_console watermarks reset customers-to-erp --yes --json
    """  # noqa: D301 - as above
    if not yes and not console.is_interactive():
        msg = "this makes the job read everything again; add --yes to confirm"
        raise click.UsageError(msg)
    with console.storage() as storage:
        rows = storage.watermarks()
        if job not in rows:
            _job(storage, job, force=False)
        before = rows[job].watermark if job in rows else None
        if before and not yes:
            click.confirm(f"reset {job!r}, now at {before}?", abort=True, err=True)
        if before:
            storage.set_watermark(job, "")
    _report(job, before, None, as_json=as_json)


def _report(job: str, before: str | None, after: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"job": job, "before": before, "after": after})
    talk(f"{job}: {before or 'the beginning'} -> {after or 'the beginning'}")


def _job(storage: Storage, name: str, *, force: bool) -> Job | None:
    """Return the configured job; None, where `force` allows that, for another name."""
    if force:
        configuration = _published_or_none(storage)
        return configuration.jobs.get(name) if configuration else None
    with working("reading the published configuration"):
        known = read_published(storage.container).jobs
    if name not in known:
        msg = (
            f"job {name!r} is not configured; known are {', '.join(sorted(known)) or 'none'}; "
            "correct the name, or use --force with `watermarks set`"
        )
        raise ConfigurationError(msg)
    return known[name]


def _published_or_none(storage: Storage) -> Configuration | None:
    try:
        return read_published(storage.container)
    except ConfigurationError as error:
        talk(f"note: {error}")
        return None
