"""What the people at the CRM do between two faults; the seed chooses."""

import random
from dataclasses import dataclass

from devstack.demo.databases import Databases
from devstack.demo.records import order_number
from soak.scene import Scene

#: So many orders at once get a note that the bus does not take.
_LONG_NOTES = 8


@dataclass
class People:
    """Work in pieces of a given number of changes. No order is deleted twice."""

    scene: Scene
    chance: random.Random
    customers: int = 0
    orders: int = 0
    #: Orders up to this one have been deleted, or deleted and entered again.
    deleted: int = 0
    changes: int = 0

    @property
    def _databases(self) -> Databases:
        return self.scene.databases

    def begin(self, size: int) -> str:
        """Enter customers, and orders for them."""
        entered = max(1, size // 3)
        return f"{self._enter_customers(entered)}, {self._enter_orders(size - entered)}"

    def work(self, size: int) -> str:
        """Change `size` records, of two kinds at least; return what was done, in words."""
        moved = max(1, size // 4)
        rest = size - moved
        others = (
            self._enter_customers,
            self._enter_orders,
            self.ship,
            self._delete,
            self._enter_again,
            self._write_long_notes,
        )
        first = self.chance.choice(others)(rest // 2)
        second = self.chance.choice(others)(rest - rest // 2)
        return f"{self.move(moved)}, {first}, {second}"

    def _enter_customers(self, count: int) -> str:
        self._databases.insert_customers(self.customers + 1, count)
        self.customers += count
        return self._told(count, "customers entered")

    def _enter_orders(self, count: int) -> str:
        self._databases.insert_orders(self.orders + 1, count, customers=self.customers)
        self.orders += count
        return self._told(count, "orders entered")

    def move(self, count: int) -> str:
        """Let customers move."""
        self._databases.update_customers(count := min(count, self.customers))
        return self._told(count, "customers moved")

    def ship(self, count: int) -> str:
        """Ship orders."""
        first = self._after_the_deleted(count)
        count = min(count, self.orders - first + 1)
        self._databases.update_orders(first, count)
        return self._told(count, "orders shipped")

    def ship_these(self, orders: list[str]) -> str:
        """Ship orders by their numbers."""
        with self.scene.database("crm") as crm:
            crm.execute(
                "UPDATE customer_order SET status = 2, amount = amount + 4.90"
                " WHERE order_number = ANY(%s)",
                [orders],
            )
        return self._told(len(orders), "orders shipped")

    def _delete(self, count: int) -> str:
        count = min(count, self._expendable)
        first, self.deleted = self.deleted + 1, self.deleted + count
        with self.scene.database("crm") as crm:
            crm.execute(
                "DELETE FROM customer_order WHERE order_number BETWEEN %s AND %s",
                [order_number(first), order_number(self.deleted)],
            )
        return self._told(count, "orders deleted")

    def _enter_again(self, count: int) -> str:
        count = min(count // 2, self._expendable)
        first, self.deleted = self.deleted + 1, self.deleted + count
        self._databases.enter_orders_again(first, count)
        return self._told(2 * count, "deletions and new entries of orders")

    def _write_long_notes(self, count: int) -> str:
        """Make some messages too large for the bus; ship for the rest of the count."""
        count -= (large := min(count, _LONG_NOTES, self.orders - self.deleted))
        first = self._after_the_deleted(large)
        with self.scene.database("crm") as crm:
            crm.execute(
                "UPDATE customer_order SET note = repeat('ü', 120000)"
                " WHERE order_number BETWEEN %s AND %s",
                [order_number(first), order_number(first + large - 1)],
            )
        return f"{self._told(large, 'long notes written')}, {self.ship(count)}"

    @property
    def _expendable(self) -> int:
        """How many orders may go, so that there are always some to change."""
        return (self.orders - self.deleted) // 3

    def _after_the_deleted(self, count: int) -> int:
        last = max(self.deleted + 1, self.orders - count + 1)
        return self.chance.randint(self.deleted + 1, last)

    def _told(self, count: int, what: str) -> str:
        self.changes += count
        return f"{count} {what}"
