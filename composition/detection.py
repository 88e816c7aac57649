"""The services that read sources."""

from datetime import timedelta
from functools import cached_property

from composition.shared import Shared, now
from services.azure_access import blob_client, table_client
from services.detection.activity import DurableDetectionService
from services.detection.execute_job import ExecuteJobService
from services.detection.job_run import JobRunner
from services.detection.jobs import JobService
from services.detection.reports import RunReports
from services.detection.retrieval import ProcessJobsForRetrievalInOrderService
from services.detection.watermarks import BOUNDARIES, TABLE
from services.operation.heartbeat import HeartbeatService

#: A tick of detection ends after this time, and the next one goes on.
TICK_BUDGET = timedelta(minutes=5)


class Detection(Shared):
    """Behind `GetChanges`, `ExecuteJob` and the activities of durable detection."""

    def get_changes(self) -> ProcessJobsForRetrievalInOrderService:
        """Return the service behind the function `GetChanges`."""
        with self._building:
            return self._retrieval

    def execute_job(self) -> ExecuteJobService:
        """Return the service behind the function `ExecuteJob`."""
        with self._building:
            return self._execute_job

    def durable_detection(self) -> DurableDetectionService:
        """Return the service behind the activities of durable detection."""
        with self._building:
            return self._durable_detection

    @cached_property
    def _retrieval(self) -> ProcessJobsForRetrievalInOrderService:
        return ProcessJobsForRetrievalInOrderService(
            self._initialization,
            self._jobs,
            self._job_runner,
            open_service_bus=self.open_service_bus,
            reports=self._run_reports,
            heartbeat=self._heartbeat,
            budget=TICK_BUDGET,
            now=now,
        )

    @cached_property
    def _execute_job(self) -> ExecuteJobService:
        return ExecuteJobService(
            self._initialization,
            self._job_runner,
            open_service_bus=self.open_service_bus,
            reports=self._run_reports,
            now=now,
        )

    @cached_property
    def _durable_detection(self) -> DurableDetectionService:
        return DurableDetectionService(
            self._initialization,
            self._jobs,
            self.watermarks,
            blob_client(self._environ).get_container_client(BOUNDARIES),
            source_of=self.connector,
            open_service_bus=self.open_service_bus,
            reports=self._run_reports,
            now=now,
        )

    @cached_property
    def _jobs(self) -> JobService:
        return JobService(self.watermarks, self.metrics)

    @cached_property
    def _run_reports(self) -> RunReports:
        return RunReports(self.metrics, self._tracing, now=now)

    @cached_property
    def _job_runner(self) -> JobRunner:
        return JobRunner(self.watermarks, source_of=self.connector)

    @cached_property
    def _heartbeat(self) -> HeartbeatService:
        return HeartbeatService(table_client(self._environ).get_table_client(TABLE))
