"""`python -m devstack.demo`: customers and orders of a CRM to an ERP.

Everything on the way is the code that runs in Azure; only the servers are local.
"""

import argparse
import sys
import time
from pathlib import Path

from devstack.demo.databases import Databases, Difference
from devstack.demo.scenario import demo_stack, run_command, wait_until_equal
from devstack.stack import Stack

_PATIENCE_SECONDS = 120


def main() -> int:
    """Return 0 where both databases agree at the end."""
    parser = argparse.ArgumentParser(prog="devstack.demo", description=__doc__)
    parser.add_argument("--customers", type=int, default=2_000, help="initial load (default 2000)")
    options = parser.parse_args()
    return run_command("demo", lambda folder: _run(folder, options.customers))


def _run(folder: Path, customers: int) -> None:
    say("starting PostgreSQL, Azurite and the Service Bus emulator")
    with demo_stack(folder) as (stack, databases):
        orders = 2 * customers
        databases.insert_customers(1, customers)
        databases.insert_orders(1, orders, customers=customers)
        say(f"the CRM holds {customers} customers and {orders} orders, the ERP nothing")
        say("starting the Functions host")
        stack.host.start()
        _follow("initial load", customers + orders, databases, stack)
        changed = customers // 10
        databases.update_customers(changed)
        databases.insert_customers(customers + 1, changed)
        databases.delete_orders(changed)
        say(f"the CRM changes: {changed} customers moved, {changed} new, {changed} orders deleted")
        _follow("changes", 3 * changed, databases, stack)
        say("both databases agree, row by row")


def _follow(what: str, records: int, databases: Databases, stack: Stack) -> None:
    started = time.monotonic()

    def report(difference: Difference) -> None:
        say(
            f"{what}: {difference.missing} records missing, {difference.different} different, "
            f"{difference.surplus} too many"
        )

    wait_until_equal(databases, stack, seconds=_PATIENCE_SECONDS, report=report)
    say(f"{what}: {records} records in {time.monotonic() - started:.1f} s")


def say(text: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
