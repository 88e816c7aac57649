"""A Service Bus for one machine: queues over AMQP and the Atom API, kept in SQLite.

`queue.py` is the model and knows neither AMQP nor SQLite nor the clock; `store.py` keeps what the
model says; everything else is the wire. Nothing leaves a socket before the commit that covers it.
"""
