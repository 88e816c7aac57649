"""Which jobs are due."""

from models.configuration import Configuration
from models.job import Job


class JobService:
    """Chooses among the jobs of a configuration."""

    def get_jobs_to_run(self, configuration: Configuration) -> list[Job]:
        """Return the enabled jobs in ascending order, by name where the order is equal."""
        enabled = (job for job in configuration.jobs.values() if job.enabled)
        return sorted(enabled, key=lambda job: (job.order, job.name))
