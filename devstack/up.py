"""`python -m devstack.up`: the demonstration's stack, running until Ctrl-C, to play with."""

import json
import os
import sys
import time
from pathlib import Path

from devstack.demo.scenario import demo_stack, run_command
from devstack.processes import StackError
from devstack.stack import Stack

_CUSTOMERS = 100


def main() -> int:
    """Return 130 after Ctrl-C, 1 where a server did not start or ended by itself."""
    return run_command("up", _run)


def _run(folder: Path) -> None:
    with demo_stack(folder) as (stack, databases):
        databases.insert_customers(1, _CUSTOMERS)
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
    print(
        f"""
The stack is running; Ctrl-C stops it and removes its data.

CRM (change table customer)            {stack.postgres.dsn("crm")}
ERP (watch table business_partner)     {stack.postgres.dsn("erp")}
Service Bus                            {bus["connection_string"]}
Service Bus administration (HTTPS)     {bus["admin_connection_string"]}
  its certificate                      {bus["certificate"]}
Storage                                {stack.azurite.connection_string()}
Functions host                         {host["url"]}
  detect now                           curl -X POST {host["url"]}/admin/functions/GetChanges \\
                                         -H "x-functions-key: {_master_key(folder)}" \\
                                         -H "content-type: application/json" -d '{{}}'
Logs                                   {folder}/*.log
""",
        flush=True,
    )


def _master_key(folder: Path) -> str:
    keys = json.loads((folder / "functions_host" / "keys.json").read_text(encoding="utf-8"))
    return str(keys["masterKey"])


if __name__ == "__main__":
    sys.exit(main())
