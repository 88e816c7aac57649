"""One validated set of connections, mappings and jobs."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from delivery.errors import ConfigurationError
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkType


@dataclass(frozen=True, slots=True)
class Response:
    """A response job and its mapping, from the target's entity back to the source's."""

    job: Job
    mapping: Mapping

    def lacking(self, message: QueueMessage) -> tuple[str, ...]:
        """Return the fields of the target that the response would write back, and `message` lacks.

        Null is lacking: the source does not know the value yet.
        """
        known = {**message.fields, **message.keys}
        return tuple(field for field in self.mapping.source_fields() if known.get(field) is None)


@dataclass(frozen=True, slots=True)
class Configuration:
    """A snapshot by name; every name that one document uses for another exists in it."""

    connections: dict[str, Connection]
    mappings: dict[str, Mapping]
    jobs: dict[str, Job]

    @classmethod
    def of(
        cls, connections: Iterable[Connection], mappings: Iterable[Mapping], jobs: Iterable[Job]
    ) -> Self:
        """Join the documents; raise ConfigurationError, a line for each name that is wrong."""
        connections, mappings, jobs = list(connections), list(mappings), list(jobs)
        configuration = cls(
            {connection.name: connection for connection in connections},
            {mapping.name: mapping for mapping in mappings},
            {job.name: job for job in jobs},
        )
        faults = [
            *_taken_twice("connection", connections),
            *_taken_twice("mapping", mappings),
            *_taken_twice("job", jobs),
            *(fault for job in configuration.jobs.values() for fault in configuration.faults(job)),
        ]
        if faults:
            raise ConfigurationError("\n".join(faults))
        return configuration

    def faults(self, job: Job) -> Iterator[str]:
        """Yield what is wrong with the names that `job` uses."""
        yield from _unknown(job, "mapping", job.mapping, self.mappings)
        yield from _unknown(job, "source", job.source, self.connections)
        yield from _unknown(job, "target", job.target, self.connections)
        yield from self._response_faults(job)
        yield from self._skip_outdated_faults(job)
        if job.watermark is None and not self._is_a_response_job(job):
            yield (
                f"job {job.name!r} has no watermark, and is no job's responseJob: it would never "
                "run; add `watermark` with the field that orders changes in time"
            )
        for name in job.depends_on:
            yield from _unknown(job, "dependsOn", name, self.jobs)
            # This also rules out circles.
            if name in self.jobs and self.jobs[name].position >= job.position:
                yield (
                    f"job {job.name!r}: dependsOn {name!r} runs after it; "
                    f"give {name!r} a lower order than {job.order}"
                )

    def _is_a_response_job(self, job: Job) -> bool:
        return any(other.response_job == job.name for other in self.jobs.values())

    def _response_faults(self, job: Job) -> Iterator[str]:
        if job.response_job is None:
            return
        yield from _unknown(job, "responseJob", job.response_job, self.jobs)
        response = self.response_of(job)
        if response is None:
            return
        place = f"job {job.name!r}: responseJob {response.job.name!r}"
        if response.job.response_job or response.job.action:
            yield f"{place} has a responseJob or an action itself; leave it out"
        if response.job.source != job.target or response.job.target != job.source:
            yield f"{place} must go from {job.target!r} back to {job.source!r}"
        mapping = self.mappings.get(job.mapping)
        if mapping is None:
            return
        if response.mapping.source_entity != mapping.target_entity:
            yield f"{place} must read {mapping.target_entity!r}, which this job writes"
        if missing := sorted({*response.mapping.source_fields()} - {*mapping.written_fields()}):
            yield (
                f"{place} reads {', '.join(missing)}; mapping {mapping.name!r} must carry that "
                "too, or nobody sees that the source knows it already, and responses never end"
            )

    def _skip_outdated_faults(self, job: Job) -> Iterator[str]:
        mapping = self.mappings.get(job.mapping)
        if job.skip_outdated is None or mapping is None:
            return
        place = f"job {job.name!r}: skipOutdated {job.skip_outdated!r}"
        if job.watermark is None:
            yield f"{place} needs a watermark, which says how old a change is"
        elif WatermarkType.of(job.watermark.type) in {WatermarkType.TOKEN, WatermarkType.UNKNOWN}:
            yield (
                f"{place} needs a watermark of type datetime, integer or text; "
                f"values of type {job.watermark.type!r} cannot be compared"
            )
        elif mapping.deletions and WatermarkType.of(job.watermark.type) is WatermarkType.DATE:
            yield (
                f"{place} needs a finer watermark than a date, as mapping {mapping.name!r} has "
                "deletions: a record that is deleted and made anew on one day would be lost"
            )
        elif not mapping.only_copies(job.watermark.field, job.skip_outdated):
            yield (
                f"{place} must be a field to which mapping {mapping.name!r} copies the watermark "
                f"field {job.watermark.field!r}, with no operation and no resolver on it"
            )

    def summary(self) -> str:
        """Return how much there is of what."""
        return (
            f"{len(self.connections)} connections, {len(self.mappings)} mappings, "
            f"{len(self.jobs)} jobs"
        )

    def mapping_of(self, job: Job) -> Mapping:
        """Return the mapping that `job` runs."""
        return self.mappings[job.mapping]

    def reading_of(self, job: Job) -> str:
        """Return a hash of all that decides which changes `job` reads, and as what."""
        what = job.model_dump_json(include={"source", "mapping", "watermark", "filter", "action"})
        how = self.mapping_of(job).model_dump_json()
        return hashlib.sha256(f"{what}{how}".encode()).hexdigest()[:16]

    def response_of(self, job: Job) -> Response | None:
        """Return what takes the target's answers to `job` back to its source, if anything does."""
        response = self.jobs.get(job.response_job or "")
        if response is None or response.mapping not in self.mappings:
            return None
        return Response(response, self.mapping_of(response))


def _taken_twice(kind: str, documents: Sequence[Connection | Mapping | Job]) -> Iterator[str]:
    for name, count in Counter(document.name for document in documents).items():
        if count > 1:
            yield f"{count} {kind}s are named {name!r}; rename all but one of them"


def _unknown(job: Job, field: str, name: str, known: Collection[str]) -> Iterator[str]:
    if name not in known:
        yield (
            f"job {job.name!r}: {field} {name!r} does not exist; "
            f"known are {', '.join(sorted(known)) or 'none'}"
        )
