"""Durable Functions on one machine: orchestrations, activities, entities, timers and their API.

It stands where Azure's Durable Task extension stands: it writes the history that the library
replays, does what the library's answer asks for, and keeps everything in one SQLite file. What a
step decides (`steps`, `answers`, `retries`) knows neither the file nor the worker.
"""
