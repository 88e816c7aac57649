"""The disasters of the local stack, where tests look for them."""

from devstack.disasters import kill_emulator, kill_host, kill_worker, wait_for

__all__ = ["kill_emulator", "kill_host", "kill_worker", "wait_for"]
