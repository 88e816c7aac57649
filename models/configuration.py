"""One validated set of connections, mappings and jobs."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from delivery.errors import ConfigurationError
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping


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
        for name in job.depends_on:
            yield from _unknown(job, "dependsOn", name, self.jobs)
            # This also rules out circles.
            if name in self.jobs and self.jobs[name].position >= job.position:
                yield (
                    f"job {job.name!r}: dependsOn {name!r} runs after it; "
                    f"give {name!r} a lower order than {job.order}"
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
