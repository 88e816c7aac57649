"""Commands for the configuration files: validate, publish, schemas, reference."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import click

from delivery.errors import ConfigurationError
from models.configuration import Configuration
from operator_console.console import (
    EXIT_CODES,
    Console,
    as_json_option,
    folder_type,
    print_json,
    talk,
    with_progress,
    working,
)
from operator_console.json_schemas import schema_files
from operator_console.local_files import SCHEMAS, LocalFiles, read_folder
from operator_console.published_files import apply, read_digests
from operator_console.publishing import Step, digest, plan
from operator_console.reference import reference as reference_page
from operator_console.storage import Storage

_folder_argument = click.argument("folder", type=folder_type, default="configuration")


@click.command(epilog=EXIT_CODES)
@_folder_argument
@as_json_option
def validate(folder: Path, *, as_json: bool) -> None:
    """Check all files in FOLDER (default: configuration), without any connection.

    Prints faults, a line each, with file, place within it, and remedy; those between files once
    each file is right by itself.

    \b
    Examples:
      python -m operator_console validate
      python -m operator_console validate other-folder --json
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    files = _read(folder)
    counts, faults = {}, []
    try:
        counts = _counts(files.validated())
    except ConfigurationError as error:
        faults = str(error).splitlines()
    if as_json:
        print_json({"valid": not faults, **counts, "faults": faults, "ignored": files.ignored})
    else:
        for fault in faults:
            click.echo(fault)
    if faults:
        msg = f"{folder.as_posix()} is not valid; faults: {len(faults)}"
        raise click.ClickException(msg)
    talk(f"{folder.as_posix()} is valid: {_sentence(counts)}")


@click.command(epilog=EXIT_CODES)
@_folder_argument
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@as_json_option
@click.pass_obj
def publish(console: Console, folder: Path, *, dry_run: bool, as_json: bool) -> None:
    """Make the files in FOLDER (default: configuration) the configuration of the app.

    Validates first, and publishes nothing unless all is valid. Then the blob container
    `configuration` is made to hold exactly this set: new and changed files are uploaded, files
    that are not in FOLDER are removed. The app keeps its last valid set until the new one is
    complete. Publishing again completes what was interrupted.

    \b
    Examples:
      python -m operator_console publish --dry-run
      python -m operator_console publish
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    files = _read(folder)
    try:
        counts = _counts(files.validated())
    except ConfigurationError as error:
        msg = f"nothing is published, because the files are not valid:\n{error}"
        raise ConfigurationError(msg) from error
    with console.storage() as storage:
        steps = _publish(storage, files.contents, dry_run=dry_run)
    if as_json:
        print_json({"dryRun": dry_run, "steps": [asdict(step) for step in steps], **counts})
    what = "files that would change" if dry_run else "files changed"
    talk(f"{what}: {len(steps)}; the set has {_sentence(counts)}")


@click.command(epilog=EXIT_CODES)
@_folder_argument
@as_json_option
def schemas(folder: Path, *, as_json: bool) -> None:
    """Write JSON Schemas for editors to FOLDER/schemas (default: configuration/schemas).

    They are made of the models that validate the files; docs/operator-console.md shows how an
    editor uses them.

    \b
    Example:
      python -m operator_console schemas
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    place = folder / SCHEMAS
    place.mkdir(exist_ok=True)
    written = []
    for name, text in schema_files().items():
        (place / name).write_text(text, "utf-8", newline="\n")
        written.append((place / name).as_posix())
    if as_json:
        print_json({"written": written})
    talk(f"wrote {', '.join(written)}")


@click.command(epilog=EXIT_CODES)
def reference() -> None:
    """Print every key of the configuration files, as Markdown.

    The page is made of the models that validate the files, as the schemas are.

    \b
    Example:
      python -m operator_console reference > docs/configuration-reference.md
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    click.echo(reference_page())


def _read(folder: Path) -> LocalFiles:
    files = read_folder(folder)
    for name in files.ignored:
        talk(
            f"note: {folder.as_posix()}/{name} is no configuration file to the app, and is ignored"
        )
    return files


def _publish(storage: Storage, contents: Mapping[str, bytes], *, dry_run: bool) -> list[Step]:
    local = {name: digest(content) for name, content in contents.items()}
    with working("comparing with what is published"):
        steps = plan(local, read_digests(storage.container))
    for step in steps:
        talk(f"  {step.action:6}  {step.file}")
    if dry_run or not steps:
        return steps
    done = 0
    try:
        for _ in with_progress(apply(storage.container, steps, contents), "publishing", len(steps)):
            done += 1
    finally:
        if done < len(steps):
            talk(f"{done} of {len(steps)} files were changed; publish again to complete the set")
    if plan(local, read_digests(storage.container)):
        msg = "somebody else published at the same time, and the sets are mixed; publish again"
        raise ConfigurationError(msg)
    return steps


def _counts(configuration: Configuration) -> dict[str, int]:
    return {
        "connections": len(configuration.connections),
        "mappings": len(configuration.mappings),
        "jobs": len(configuration.jobs),
    }


def _sentence(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what}: {count}" for what, count in counts.items())
