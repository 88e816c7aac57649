"""What happens in the demonstration, from the empty ERP to the last message that came back."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal

from devstack.demo import durable, mover
from devstack.demo.books import Books, Figures, Remaining
from devstack.demo.databases import Databases, Difference
from devstack.demo.narration import Narrator
from devstack.demo.report import Reason, progress_of
from devstack.demo.scenario import detect_changes
from devstack.processes import StackError
from devstack.stack import Stack

JOBS = CUSTOMERS, ORDERS = "customers-to-erp", "orders-to-erp"

ORDERS_PER_CUSTOMER = 4

_POLL_SECONDS = 0.2
#: So long no figure may stand still: the longest silence that is planned is a backoff of 9 s.
_PATIENCE_SECONDS = 60

#: The ERP takes customers up to 100,000 euros of credit, until it is repaired.
_TOO_MUCH_CREDIT = Decimal(100_000)
_RAISED_LIMIT = 250_000

#: Why what was sent back is ignored.
_CORRECTED = "their correction had arrived first"
_OVERTAKEN = "a newer change had arrived first"


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

    @property
    def entered_again(self) -> int:
        """Orders that are deleted and entered again, which are two changes."""
        return self.unit


@dataclass(frozen=True, slots=True)
class Ending:
    """What was found at the end."""

    figures: Mapping[str, Figures]
    remaining: list[Remaining]
    reasons: Mapping[str, Reason]
    difference: Difference


class Story:
    """Drives the stack through the story and tells it.

    The initial load is of `customers`; where `is_durable`, it is an orchestration.
    """

    def __init__(  # noqa: PLR0913 - who takes part in it, and how it goes
        self,
        stack: Stack,
        databases: Databases,
        books: Books,
        narrator: Narrator,
        customers: int,
        *,
        is_durable: bool = False,
    ) -> None:
        self._stack = stack
        self._databases = databases
        self._books = books
        self._narrator = narrator
        self._amounts = Amounts(customers)
        self._is_durable = is_durable

    def tell(self) -> Ending:
        """Go through all of it; raise StackError where something stands still."""
        self._load()
        self._change()
        self._repair()
        self._begin("looking what is left in the queues, and comparing both databases")
        corrected, entered_again = self._amounts.corrected, self._amounts.entered_again
        return Ending(
            self._books.figures(),
            mover.remaining(self._stack),
            {
                CUSTOMERS: Reason(corrected, _CORRECTED),
                ORDERS: Reason(
                    entered_again, "deletions of orders that were entered again at once"
                ),
            },
            self._databases.compare(),
        )

    def _load(self) -> None:
        amounts, databases = self._amounts, self._databases
        self._begin("filling the CRM; the ERP is empty")
        databases.insert_customers(1, amounts.customers)
        databases.insert_orders(1, amounts.orders, customers=amounts.customers)
        load = (
            f"run 1, the initial load: {amounts.customers:,} customers, then "
            f"{amounts.orders:,} orders"
        )
        changed = {CUSTOMERS: amounts.customers, ORDERS: amounts.orders}
        if self._is_durable:
            self._load_durably(load, changed)
        else:
            self._begin("starting the Functions host")
            self._stack.host.start()
            self._detect(load, changed)
            self._say_state("run 1")

    def _load_durably(self, activity: str, changed: Mapping[str, int]) -> None:
        """Load by an orchestration, and leave a host whose timer goes on from there."""
        self._begin("starting the Functions host, for durable detection")
        self._stack.restart_host(SYNC_DETECTION="durable")
        began = self._databases.now().astimezone(UTC).isoformat()
        self._begin(activity)
        self._books.note_changed(changed)
        orchestration = durable.start(self._stack)
        self._say(f"orchestration {orchestration.instance} has started")
        self._wait_until(orchestration.has_ended)
        self._say("it has completed; what it has sent is being written")
        # What the worker has counted and not exported would be lost with it.
        self._wait_until(lambda: not self._missing() and self._is_settled())
        self._say_state("run 1")
        self._begin("setting the watermarks, as durable detection does not write them")
        for job in JOBS:
            durable.set_watermark(self._stack, job, began)
        self._say("the timer is to read what is newer than the begin of the load:")
        self._narrator.quote(began)
        self._begin("starting the Functions host again, for detection by timer")
        self._stack.restart_host(SYNC_DETECTION="timer")

    def _change(self) -> None:
        amounts, databases, unit = self._amounts, self._databases, self._amounts.unit
        new, refused = amounts.customers + 1, amounts.customers + 1 + 2 * unit
        self._begin("people change the CRM")
        databases.update_customers(5 * unit)
        databases.insert_customers(new, 2 * unit)
        databases.insert_orders_of(
            amounts.orders + 1, 8 * unit, customers=range(new, new + 2 * unit)
        )
        self._say(f"{5 * unit} customers moved, {2 * unit} came with {8 * unit} orders")
        again = amounts.entered_again
        databases.delete_orders(4 * unit)
        databases.enter_orders_again(4 * unit + 1, again)
        databases.update_orders(4 * unit + again + 1, 10 * unit)
        self._say(f"{10 * unit} orders shipped, {4 * unit} deleted")
        self._say(f"{again} deleted and entered again: their deletion is outdated then")
        databases.insert_customers(refused, amounts.refused, more_credit=_TOO_MUCH_CREDIT)
        databases.insert_orders_of(
            amounts.orders + 1 + 8 * unit,
            2 * amounts.refused,
            customers=range(refused, refused + amounts.refused),
        )
        self._say(
            f"{amounts.refused} more came, with {2 * amounts.refused} orders and more credit than "
            "the ERP takes"
        )
        self._detect(
            "run 2, the changes; what is refused is tried again after 4 and 9 s",
            {
                CUSTOMERS: 7 * unit + amounts.refused,
                ORDERS: 22 * unit + 2 * again + 2 * amounts.refused,
            },
        )
        self._say_state("run 2")

    def _repair(self) -> None:
        amounts = self._amounts
        refused = amounts.customers + 1 + 2 * amounts.unit
        self._begin(f"the CRM corrects the credit of {amounts.corrected} of the refused customers")
        self._databases.lower_credit_limits(refused, amounts.corrected, by=_TOO_MUCH_CREDIT)
        self._detect("run 3, the corrections", {CUSTOMERS: amounts.corrected})
        self._say(f"the ERP has {amounts.corrected} as corrected; their dead letters are outdated")
        self._databases.raise_credit_limit_of_the_erp(_RAISED_LIMIT)
        self._say(
            f"the ERP is repaired: it takes customers up to {_RAISED_LIMIT:,} euros of credit"
        )
        # Customers first: their orders would only come back to where they are.
        self._bring_back("sbqnormal", "--dead-letter")
        self._bring_back("sbqtransitivenormal")

    def _bring_back(self, queue: str, *options: str) -> None:
        place = f"{queue}'s dead letters" if options else queue
        self._begin(f"the dead-letter mover reads {place}, by {mover.RULES.name}")
        before = self._together()
        moved = mover.bring_back(self._stack, queue, *options)
        for group in moved.groups:
            self._say(f"{group['action']} {group['count']}; the error of the first:")
            self._narrator.quote(mover.error_of(group))
        self._books.note_requeued(moved.requeued)
        self._begin(f"it sent {moved.requeued.total()} back; they are processed once more")
        # The broker's count is up to a second old: it must know of them too.
        self._wait_until(lambda: self._is_settled() and self._together().sent >= before.sent)
        now = self._together()
        written, ignored = now.success - before.success, now.ignored - before.ignored
        self._say(f"{written} written to the ERP")
        if ignored:
            self._say(f"{ignored} ignored: {_CORRECTED if options else _OVERTAKEN}")

    def _detect(self, activity: str, changed: Mapping[str, int]) -> None:
        """Have all changes detected, and wait until what was sent is where it stays."""
        # Not by the timer: so a run is one run, and what lies between two of them is ours to say.
        self._begin(activity)
        self._books.note_changed(changed)
        while missing := self._missing():
            self._run_detection()
            left = self._missing()
            if left == missing:
                jobs = ", ".join(f"{job} {count:,}" for job, count in left.items())
                msg = f"a run found none of the changes that are left: {jobs}"
                raise StackError(msg)
            if left:
                self._say(f"its time is up, with {sum(left.values()):,} left: the next run goes on")
        self._wait_until_settled()

    def _run_detection(self) -> None:
        before = {job: self._books.runs_of(job) for job in JOBS}
        detect_changes(self._stack)
        self._wait_until(lambda: self._has_ended(before))

    def _missing(self) -> dict[str, int]:
        """Return how many changes of which job have not been detected."""
        figures = self._books.figures().items()
        return {
            job: has.changed - has.detected for job, has in figures if has.changed > has.detected
        }

    def _has_ended(self, runs_before: Mapping[str, int]) -> bool:
        """Whether a run of detection has ended.

        It ends with a job that has used up its time: the other waits for that, or was before it.
        """
        reported = {job for job in JOBS if self._books.runs_of(job) > runs_before[job]}
        return reported == {*JOBS} or not reported.isdisjoint(self._missing())

    def _wait_until_settled(self) -> None:
        self._wait_until(self._is_settled)

    def _is_settled(self) -> bool:
        return all(has.is_settled for has in self._books.figures().values())

    def _wait_until(self, is_over: Callable[[], bool]) -> None:
        seen: Mapping[str, Figures] | None = None
        end = 0.0
        while True:
            ends = is_over()  # first: what it says must be in the figures
            figures = self._books.figures()
            self._narrator.watch(figures)
            if ends:
                return
            if figures != seen:
                seen, end = figures, time.monotonic() + _PATIENCE_SECONDS
            self._check(figures, time.monotonic() < end)
            time.sleep(_POLL_SECONDS)

    def _check(self, figures: Mapping[str, Figures], moves: bool) -> None:  # noqa: FBT001 - the condition
        if not self._stack.is_running():
            msg = f"a server ended by itself; the logs are in {self._stack.folder}"
            raise StackError(msg)
        if not moves:
            msg = (
                f"nothing has moved for {_PATIENCE_SECONDS} s, at {progress_of(figures)}; "
                f"see {self._stack.host.log}"
            )
            raise StackError(msg)

    def _say_state(self, run: str) -> None:
        """Say how far the ERP is from the CRM, and where what it lacks is to be found."""
        difference = self._databases.compare()
        self._say(f"after {run}: {difference or 'both databases agree'}")
        if difference:
            has = self._together()
            self._say(
                f"set aside: {has.dead_lettered} dead letters, "
                f"{has.transitive} that wait for their customer"
            )
            self._say(f"ignored: {has.ignored}, as {_OVERTAKEN}")

    def _together(self) -> Figures:
        return sum(self._books.figures().values(), start=Figures())

    def _begin(self, activity: str) -> None:
        self._narrator.begin(activity)

    def _say(self, text: str) -> None:
        self._narrator.say(text)
