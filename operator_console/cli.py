"""The root of all commands, and the one place where an error becomes a sentence and a status."""

from typing import Any

import click

from delivery.errors import DeliveryError
from operator_console.configuration import publish, reference, schemas, validate
from operator_console.console import EXIT_CODES, Console
from operator_console.jobs import jobs
from operator_console.probing import probe_azure
from operator_console.watermarks import watermarks


class _Root(click.Group):
    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as in the base
        try:
            return super().invoke(ctx)
        except DeliveryError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.filename is None:  # a closed pipe, which click ends quietly
                raise
            msg = f"{error.filename}: {error.strerror}; check the path and its permissions"
            raise click.ClickException(msg) from error


@click.group(cls=_Root, epilog=EXIT_CODES)
@click.pass_context
def main(context: click.Context) -> None:
    """Operate Gleichlauf: its configuration, its jobs and their watermarks; probe Service Bus.

    The storage account comes from the setting SYNC_STORAGE, by the same rules as in the app: a
    connection string, or SYNC_STORAGE__blobServiceUri and SYNC_STORAGE__tableServiceUri for an
    identity. Where the environment has none of them, they are read from `Values` in
    local.settings.json in the current folder. The broker's settings, of which probe-azure alone has
    need, begin with SYNC_SERVICE_BUS.

    \b
    Examples:
      python -m operator_console validate
      python -m operator_console publish --dry-run
      python -m operator_console jobs
      python -m operator_console watermarks set customers-to-erp today
      python -m operator_console probe-azure gleichlauf-probe
    """  # noqa: D301 - \b is click's mark for lines that stay as they are
    if context.obj is None:
        context.obj = Console()


for command in (validate, publish, jobs, watermarks, schemas, reference, probe_azure):
    main.add_command(command)
