"""The processing queues by priority. Their properties stand in `servicebus.json`, nowhere else."""

from models.job import Priority

PROCESSING_QUEUES = {
    Priority.HIGH: "sbqhigh",
    Priority.NORMAL: "sbqnormal",
    Priority.LOW: "sbqlow",
}
