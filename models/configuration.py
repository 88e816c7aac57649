"""One validated set of connections, mappings and jobs."""

from collections.abc import Iterable
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
        """Join the documents; raise ConfigurationError where a name is missing or taken twice."""
        configuration = cls(
            _by_name("connection", connections),
            _by_name("mapping", mappings),
            _by_name("job", jobs),
        )
        for job in configuration.jobs.values():
            _check(job, "mapping", job.mapping, configuration.mappings)
            _check(job, "source", job.source, configuration.connections)
            _check(job, "target", job.target, configuration.connections)
        return configuration

    def mapping_of(self, job: Job) -> Mapping:
        """Return the mapping that `job` runs."""
        return self.mappings[job.mapping]


def _by_name[D: (Connection, Mapping, Job)](kind: str, documents: Iterable[D]) -> dict[str, D]:
    found: dict[str, D] = {}
    for document in documents:
        if document.name in found:
            msg = f"two {kind}s are named {document.name!r}; rename one of them"
            raise ConfigurationError(msg)
        found[document.name] = document
    return found


def _check(
    job: Job, field: str, name: str, known: dict[str, Connection] | dict[str, Mapping]
) -> None:
    if name not in known:
        msg = (
            f"job {job.name!r}: {field} {name!r} does not exist; "
            f"known are {', '.join(sorted(known)) or 'none'}"
        )
        raise ConfigurationError(msg)
