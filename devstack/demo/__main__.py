"""`python -m devstack.demo`: customers and orders of a CRM to an ERP that refuses some of them.

Everything on the way is the code that runs in Azure; only the servers are local.
"""

import argparse
import sys
import time
from pathlib import Path

from devstack.demo.books import TOGETHER, Books, balance, faults
from devstack.demo.narration import OneLine, console, narrating, stamped
from devstack.demo.report import NOTES, FigureTable, balanced, left_in_queues
from devstack.demo.scenario import demo_stack, queues_of_few_attempts, run_command
from devstack.demo.story import ORDERS_PER_CUSTOMER, Ending, Story
from devstack.ingestion import ingestion
from devstack.processes import StackError
from devstack.service_bus.arrivals import ARRIVALS

_CUSTOMERS, _FEWEST_CUSTOMERS = 5_000, 20
_ATTEMPTS = 3

#: The demonstration says when changes are detected.
_NEVER = "0 0 0 1 1 *"


def main() -> int:
    """Return 0 where both databases agree at the end, and the books balance."""
    parser = argparse.ArgumentParser(prog="devstack.demo", description=__doc__)
    text = f"of the initial load (default {_CUSTOMERS}), with {ORDERS_PER_CUSTOMER} orders each"
    parser.add_argument("--customers", type=_customers, default=_CUSTOMERS, help=text, metavar="N")
    text = "make the initial load as an orchestration of Azure Durable Functions"
    parser.add_argument("--durable", action="store_true", help=text)
    options = parser.parse_args()
    # Whatever the locale: an umlaut that it lacks is no reason to end.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr] # a text file, as always
    return run_command(
        "demo", lambda folder: _run(folder, options.customers, is_durable=options.durable)
    )


def _customers(text: str) -> int:
    if text.isdecimal() and int(text) >= _FEWEST_CUSTOMERS:
        return int(text)
    msg = f"{text} is no whole number from {_FEWEST_CUSTOMERS}: fewer would leave nothing to change"
    raise argparse.ArgumentTypeError(msg)


def _run(folder: Path, customers: int, *, is_durable: bool) -> None:
    started = time.monotonic()
    with narrating() as narrator, ingestion() as (metrics, settings):
        narrator.begin("starting PostgreSQL, Azurite and the Service Bus emulator")
        with demo_stack(
            folder,
            queues=queues_of_few_attempts(folder, _ATTEMPTS),
            broker_options=["--count-by", "JobName"],
        ) as (stack, databases):
            stack.settings = {
                **stack.settings,
                **settings,
                "SYNC_GET_CHANGES_SCHEDULE": _NEVER,
            }
            books = Books(metrics, folder / "service_bus" / ARRIVALS)
            try:
                story = Story(stack, databases, books, narrator, customers, is_durable=is_durable)
                ending = story.tell()
            finally:
                narrator.begin("stopping the servers")
    _conclude(ending, time.monotonic() - started)


def _conclude(ending: Ending, seconds: float) -> None:
    """Show what was found; raise StackError where it is not as it should be."""
    out = console()

    def show(line: str) -> None:
        # In a log a line is a line; a terminal shows of it what it has room for.
        out.print(OneLine(line) if out.is_terminal else line, soft_wrap=not out.is_terminal)

    out.print()
    for note in NOTES:
        out.print(note, style="dim", soft_wrap=not out.is_terminal)
    out.print()
    out.print(FigureTable(ending.figures))
    out.print()
    for line in left_in_queues(ending.remaining, ending.reasons):
        show(line)
    books = balance(ending.figures, ending.remaining)
    wrong = faults(books)
    if ending.difference:
        wrong.append(f"the databases do not agree: {ending.difference}")
    if wrong:
        raise StackError("; ".join(wrong))
    out.print("the books balance:")
    for line in balanced(books[TOGETHER], out.width if out.is_terminal else sys.maxsize):
        out.print(line, soft_wrap=not out.is_terminal)
    out.print(stamped(f"both databases agree, row by row, after {seconds:.0f} s"))


if __name__ == "__main__":
    sys.exit(main())
