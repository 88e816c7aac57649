"""From a source to the queues: which jobs are due, what has changed, how far a job has come."""
