"""The remote systems, one module each.

A connector turns records into queue messages and queue messages into records, and turns its
system's failures into `delivery.errors`. It knows nothing of queues, retries or Azure.
"""
