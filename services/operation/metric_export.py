"""Where the metrics go: to Azure Monitor where its app setting is set, nowhere otherwise.

A further exporter is a further reader of the one MeterProvider.
"""

import logging
from typing import TYPE_CHECKING

from services.metrics import Metric

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.metrics.export import MetricReader

_LOGGER = logging.getLogger(__name__)

#: The app setting that the Functions host reads too.
APPLICATION_INSIGHTS = "APPLICATIONINSIGHTS_CONNECTION_STRING"

_NAME = "gleichlauf"


def open_meter(connection_string: str | None, service_name: str | None = None) -> "Meter":
    """Return the meter of this process; where nobody exports, one that does nothing, threadless.

    A connection string that is no good is logged: counting is no reason for the app to stand.
    """
    from opentelemetry.metrics import NoOpMeterProvider  # noqa: PLC0415 - imported when used

    if connection_string:
        try:
            return meter_of(_azure_monitor(connection_string), service_name or _NAME)
        except Exception as error:  # noqa: BLE001 - whatever it is, the app goes on without metrics
            # The exporter's text may quote the setting, and that is a secret.
            _LOGGER.error(  # noqa: TRY400 - as said
                "no metrics are exported: the app setting %s cannot be used (%s); "
                "copy it again from the Application Insights resource",
                APPLICATION_INSIGHTS,
                type(error).__name__,
            )
    return NoOpMeterProvider().get_meter(_NAME)


def meter_of(reader: "MetricReader", service_name: str) -> "Meter":
    """Return a meter that `reader` exports, under the names as we spell them.

    The SDK makes the names of instruments lower case, those of views it leaves alone.
    """
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - imported when used
    from opentelemetry.sdk.metrics.view import View  # noqa: PLC0415 - imported when used
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - imported when used

    resource = Resource.create({"service.name": service_name})
    views = [View(instrument_name=name, name=name) for name in Metric]
    return MeterProvider([reader], resource, views=views).get_meter(_NAME)


def _azure_monitor(connection_string: str) -> "MetricReader":
    from azure.monitor.opentelemetry.exporter import (  # noqa: PLC0415 - heavy: imported when used
        AzureMonitorMetricExporter,
    )
    from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415 - imported when used
        PeriodicExportingMetricReader,
    )

    # What cannot be sent is not kept on disk: the next values say more than the old ones.
    exporter = AzureMonitorMetricExporter(
        connection_string=connection_string, disable_offline_storage=True
    )
    return PeriodicExportingMetricReader(exporter)
