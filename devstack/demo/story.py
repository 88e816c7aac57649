"""What happens in the demonstration, from the empty ERP to the last message that came back."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from devstack.demo import mover
from devstack.demo.books import Books, Figures, Remaining
from devstack.demo.databases import Databases, Difference
from devstack.demo.narration import Narrator
from devstack.demo.scenario import detect_changes
from devstack.processes import StackError
from devstack.stack import Stack

JOBS = ("customers-to-erp", "orders-to-erp")

ORDERS_PER_CUSTOMER = 4

_POLL_SECONDS = 0.2
#: So long no figure may stand still: the longest silence that is planned is a backoff of 9 s.
_PATIENCE_SECONDS = 60

#: The ERP takes customers up to 100,000 euros of credit, until it is repaired.
_TOO_MUCH_CREDIT = Decimal(100_000)
_RAISED_LIMIT = 250_000


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of everything there is, for a number of customers."""

    customers: int

    @property
    def orders(self) -> int:
        """Orders of the initial load."""
        return ORDERS_PER_CUSTOMER * self.customers

    @property
    def unit(self) -> int:
        """A hundredth of the customers, by which the changes are measured."""
        return max(1, self.customers // 100)

    @property
    def refused(self) -> int:
        """New customers with too much credit for the ERP."""
        return max(2, self.unit)

    @property
    def corrected(self) -> int:
        """How many of these the CRM corrects, before the ERP is repaired."""
        return max(1, self.unit // 5)


@dataclass(frozen=True, slots=True)
class Ending:
    """What was found at the end."""

    figures: Mapping[str, Figures]
    remaining: list[Remaining]
    difference: Difference


class Story:
    """Drives the stack through the story and tells it."""

    def __init__(
        self, stack: Stack, databases: Databases, books: Books, narrator: Narrator, customers: int
    ) -> None:
        self._stack = stack
        self._databases = databases
        self._books = books
        self._narrator = narrator
        self._amounts = Amounts(customers)

    def tell(self) -> Ending:
        """Go through all of it; raise StackError where something stands still."""
        self._load()
        self._change()
        self._repair()
        self._begin("looking what is left in the queues, and comparing both databases")
        return Ending(
            self._books.figures(),
            mover.remaining(self._stack, self._books.queues()),
            self._databases.compare(),
        )

    def _load(self) -> None:
        amounts, databases = self._amounts, self._databases
        self._begin("filling the CRM; the ERP is empty")
        databases.insert_customers(1, amounts.customers)
        databases.insert_orders(1, amounts.orders, customers=amounts.customers)
        self._begin("starting the Functions host")
        self._stack.host.start()
        self._detect(
            f"run 1, the initial load: {amounts.customers:,} customers, then "
            f"{amounts.orders:,} orders"
        )
        self._say(f"after run 1: {self._state()}")

    def _change(self) -> None:
        amounts, databases, unit = self._amounts, self._databases, self._amounts.unit
        new, refused = amounts.customers + 1, amounts.customers + 1 + 2 * unit
        self._begin("people change the CRM")
        databases.update_customers(5 * unit)
        databases.insert_customers(new, 2 * unit)
        databases.insert_orders_of(
            amounts.orders + 1, 8 * unit, customers=range(new, new + 2 * unit)
        )
        databases.delete_orders(4 * unit)
        databases.enter_orders_again(4 * unit + 1, unit)
        databases.update_orders(5 * unit + 1, 10 * unit)
        self._say(
            f"{5 * unit} customers moved, {2 * unit} came with {8 * unit} orders; "
            f"{10 * unit} orders shipped, {4 * unit} deleted"
        )
        self._say(
            f"{unit} orders deleted and entered again under their numbers: the deletion is outdated"
        )
        databases.insert_customers(refused, amounts.refused, more_credit=_TOO_MUCH_CREDIT)
        databases.insert_orders_of(
            amounts.orders + 1 + 8 * unit,
            2 * amounts.refused,
            customers=range(refused, refused + amounts.refused),
        )
        self._say(
            f"{amounts.refused} more came with {2 * amounts.refused} orders, and with more credit "
            "than the ERP takes"
        )
        self._detect(
            "run 2, the changes: the ERP refuses some, which are tried again after 4 and 9 s"
        )
        self._say(f"after run 2: {self._state()}")

    def _repair(self) -> None:
        amounts = self._amounts
        refused = amounts.customers + 1 + 2 * amounts.unit
        self._begin(f"the CRM corrects the credit of {amounts.corrected} of the refused customers")
        self._databases.lower_credit_limits(refused, amounts.corrected, by=_TOO_MUCH_CREDIT)
        self._detect("run 3, the corrections")
        self._databases.raise_credit_limit_of_the_erp(_RAISED_LIMIT)
        self._say(
            f"the ERP is repaired: it takes customers up to {_RAISED_LIMIT:,} euros of credit"
        )
        # Customers first: their orders would only come back to where they are.
        self._bring_back("sbqnormal", "--dead-letter")
        self._bring_back("sbqtransitivenormal")

    def _bring_back(self, queue: str, *options: str) -> None:
        place = f"{queue}'s dead-letter queue" if options else queue
        self._begin(f"the dead-letter mover looks into {place}, by {mover.RULES.name}")
        moved = mover.bring_back(self._stack, queue, *options)
        for group in moved.groups:
            self._say(f"{group['action']} {group['count']}: {group['error']}")
        self._books.note_requeued(moved.requeued)
        self._begin(f"it sent {moved.requeued.total()} back; they are processed once more")
        self._wait_until(lambda: True)

    def _detect(self, activity: str) -> None:
        """Run detection once, and wait until all that it sent is where it stays."""
        # Not by the timer: so a run is one run, and what lies between two of them is ours to say.
        self._begin(activity)
        before = {job: self._books.runs_of(job) for job in JOBS}
        detect_changes(self._stack)
        self._wait_until(lambda: all(self._books.runs_of(job) > before[job] for job in JOBS))

    def _wait_until(self, is_sent: Callable[[], bool]) -> None:
        seen: Mapping[str, Figures] | None = None
        end = 0.0
        while True:
            is_complete = is_sent()  # first: what it says must be in the figures
            figures = self._books.figures()
            self._narrator.watch(figures)
            if is_complete and all(has.is_settled for has in figures.values()):
                return
            if figures != seen:
                seen, end = figures, time.monotonic() + _PATIENCE_SECONDS
            self._check(time.monotonic() < end)
            time.sleep(_POLL_SECONDS)

    def _check(self, moves: bool) -> None:  # noqa: FBT001 - its one argument is the condition
        if not self._stack.is_running():
            msg = f"a server ended by itself; the logs are in {self._stack.folder}"
            raise StackError(msg)
        if not moves:
            msg = f"nothing has moved for {_PATIENCE_SECONDS} s; see {self._stack.host.log}"
            raise StackError(msg)

    def _state(self) -> str:
        """Say how far the ERP is from the CRM, and where what it lacks is to be found."""
        difference = self._databases.compare()
        if not difference:
            return "both databases agree"
        together = sum(self._books.figures().values(), start=Figures())
        return (
            f"{difference}; {together.dead_lettered} dead letters, {together.transitive} wait for "
            f"their customer, {together.ignored} ignored"
        )

    def _begin(self, activity: str) -> None:
        self._narrator.begin(activity)

    def _say(self, text: str) -> None:
        self._narrator.say(text)
