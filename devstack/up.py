"""`python -m devstack.up`: the demonstration's stack, running until Ctrl-C, to play with."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from devstack.demo.scenario import demo_stack, host_key, run_command
from devstack.processes import StackError
from devstack.stack import QUEUES, Stack

_CUSTOMERS = 100


def main() -> int:
    """Return 130 after Ctrl-C, 1 where a server did not start or ended by itself."""
    parser = argparse.ArgumentParser(prog="devstack.up", description=__doc__)
    parser.add_argument("--durable", action="store_true", help="Detect by durable orchestrations.")
    durable = parser.parse_args().durable
    return run_command("up", lambda folder: _run(folder, durable=durable))


def _run(folder: Path, *, durable: bool) -> None:
    with demo_stack(folder, queues=_queues_and_one_to_probe(folder)) as (stack, databases):
        if durable:
            stack.settings = {**stack.settings, "SYNC_DETECTION": "durable"}
        databases.insert_customers(1, _CUSTOMERS)
        databases.insert_orders(1, 2 * _CUSTOMERS, customers=_CUSTOMERS)
        stack.host.start()
        _introduce(stack, folder)
        print(_durable_detection(stack) if durable else _detection_by_timer(stack), flush=True)
        starter = os.getppid()
        while stack.is_running():
            if os.getppid() != starter:
                return  # make was killed: nobody is left to press Ctrl-C
            time.sleep(1)
        msg = f"a server ended by itself; the logs are in {folder}"
        raise StackError(msg)


def _queues_and_one_to_probe(folder: Path) -> Path:
    """Write the app's queues, and one more for `operator_console probe-azure`."""
    content = json.loads(QUEUES.read_bytes())
    queues = content["UserConfig"]["Namespaces"][0]["Queues"]
    probed = {**queues[0]["Properties"], "LockDuration": "PT10S"}
    queues.append({"Name": "gleichlauf-probe", "Properties": probed})
    path = folder / QUEUES.name
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def _introduce(stack: Stack, folder: Path) -> None:
    bus = stack.service_bus.facts()
    host = stack.host.facts()
    crm, erp = stack.postgres.dsn("crm"), stack.postgres.dsn("erp")
    print(
        f"""
The stack is running; Ctrl-C stops it and removes its data.

CRM (change customer, customer_order)     {crm}
ERP (watch business_partner, sales_order) {erp}
Service Bus                               {bus["connection_string"]}
Service Bus administration (HTTPS)        {bus["admin_connection_string"]}
  its certificate                         {bus["certificate"]}
Functions host                            {host["url"]}
Logs                                      {folder}/*.log

For psql, for the operator console, and to look into queues (docs/operations.md), in another
terminal:
  export CRM='{crm}'
  export ERP='{erp}'
  export SYNC_STORAGE='{stack.azurite.connection_string()}'
  export SYNC_SERVICE_BUS='{bus["connection_string"]}'
  export SYNC_SERVICE_BUS_ADMINISTRATION='{bus["admin_connection_string"]}'
  export SYNC_SERVICE_BUS_ADMINISTRATION_CERTIFICATE='{bus["certificate"]}'
How everything is (function key):
  curl {host["url"]}/api/Health -H "x-functions-key: {host_key(stack, "GetHealth")}"
A job by hand (function key):
  curl {host["url"]}/api/ExecuteJob -H "x-functions-key: {host_key(stack, "ExecuteJob")}" \\
    -d '{{"job": "customers-to-erp", "dryRun": true, "watermark": ""}}'"""
    )


def _detection_by_timer(stack: Stack) -> str:
    return f"""\
Changes are detected every two seconds; at once (master key):
  curl {stack.host.facts()["url"]}/admin/functions/GetChanges \\
    -H "x-functions-key: {host_key(stack)}" -H "content-type: application/json" -d '{{}}'
"""


def _durable_detection(stack: Stack) -> str:
    start = "StartGetChangesOrchestration"
    return f"""\
Changes are detected when you start an orchestration (docs/durable-detection.md, function key):
  curl -X POST {stack.host.facts()["url"]}/api/{start} \\
    -H "x-functions-key: {host_key(stack, start)}"
"""


if __name__ == "__main__":
    sys.exit(main())
