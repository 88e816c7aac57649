"""Tests on a real queue what Gleichlauf assumes of Azure Service Bus.

An assumption is a declaration and a function that tests it (`assumptions.py`). The functions know a
small port (`ports.py`) and nothing of the SDK; `service_bus.py` is the port's one adapter, and uses
the connections as the app does. `guard.py` refuses queues that could be somebody's, `scene.py`
knows our messages from others and takes them away again, and `run.py` does all in order.
"""
