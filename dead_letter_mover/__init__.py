"""A console program for queues that nobody empties: dead letters, and the side queues.

It shows what lies in a queue, grouped by the error.
"""
