"""What every system of ours shares: what an error means for the thing to be delivered.

Standard library only: nothing here knows of queues, HTTP or Azure.
"""
