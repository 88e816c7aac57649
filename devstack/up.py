"""`python -m devstack.up`: the demonstration's stack, running until Ctrl-C, to play with."""

import argparse
import os
import sys
import time
from pathlib import Path

from devstack.demo.scenario import demo_stack, host_key, run_command
from devstack.processes import StackError
from devstack.stack import Stack

_CUSTOMERS = 100


def main() -> int:
    """Return 130 after Ctrl-C, 1 where a server did not start or ended by itself."""
    argparse.ArgumentParser(prog="devstack.up", description=__doc__).parse_args()
    return run_command("up", _run)


def _run(folder: Path) -> None:
    with demo_stack(folder) as (stack, databases):
        databases.insert_customers(1, _CUSTOMERS)
        databases.insert_orders(1, 2 * _CUSTOMERS, customers=_CUSTOMERS)
        stack.host.start()
        _introduce(stack, folder)
        starter = os.getppid()
        while stack.is_running():
            if os.getppid() != starter:
                return  # make was killed: nobody is left to press Ctrl-C
            time.sleep(1)
        msg = f"a server ended by itself; the logs are in {folder}"
        raise StackError(msg)


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

Changes are detected every two seconds. For psql, for the operator console, and to look into queues
(docs/operations.md), in another terminal:
  export CRM='{crm}'
  export ERP='{erp}'
  export SYNC_STORAGE='{stack.azurite.connection_string()}'
  export SYNC_SERVICE_BUS='{bus["connection_string"]}'
How everything is (function key):
  curl {host["url"]}/api/Health -H "x-functions-key: {host_key(stack, "GetHealth")}"
A job by hand (function key), and detection at once (master key):
  curl {host["url"]}/api/ExecuteJob -H "x-functions-key: {host_key(stack, "ExecuteJob")}" \\
    -d '{{"job": "customers-to-erp", "dryRun": true, "watermark": ""}}'
  curl {host["url"]}/admin/functions/GetChanges -H "x-functions-key: {host_key(stack)}" \\
    -H "content-type: application/json" -d '{{}}'
""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
