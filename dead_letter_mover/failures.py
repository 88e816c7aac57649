"""What goes wrong, in one sentence."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import click
from azure.core.exceptions import AzureError

from dead_letter_mover.archive import ArchiveError
from dead_letter_mover.report import printable
from delivery.errors import DeliveryError
from services.azure_access import SERVICE_BUS

#: The SDK's texts are long; so much of the first line names the reason.
_LONGEST = 300


@contextmanager
def sentences(place: str) -> Iterator[None]:
    """Raise click's exception with a sentence for whatever is raised inside."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except Exception as error:
        raise click.ClickException(_sentence(place, error)) from error


def _sentence(place: str, error: Exception) -> str:
    match error:
        case ArchiveError() | DeliveryError():
            return printable(*str(error).splitlines())
        case sqlite3.Error():
            return f"the temporary folder cannot hold what lies in {place}: {error}; make room"
        case AzureError() | ConnectionError() | TimeoutError():
            return (
                f"{place}: the broker failed: {_reason(error)}; check that it is reached, and "
                f"the key in {SERVICE_BUS}. Nothing is lost, start again"
            )
        case OSError(filename=str(name)):
            return f"{name}: {error.strerror}; check the path and its permissions"
        case OSError():
            return (
                f"the output could not be written: {_reason(error)}; nothing is lost, start again"
            )
        case _:
            return (
                f"{place}: {type(error).__name__}: {_reason(error)}; nothing is lost, start again"
            )


def _reason(error: Exception) -> str:
    return printable((str(error).partition("\n")[0] or type(error).__name__)[:_LONGEST])
