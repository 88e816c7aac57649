"""What a target that is down costs the other jobs of its queue.

Two jobs write to two databases, and their messages alternate in one queue. Measured is how fast the
first job's rows arrive: while the second database is down, and while it answers. Down means that it
refuses connections, or that it takes them and never says a word.
"""

import shutil
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import yaml

from bench.processing import arrival_rate, changes_of, note_arrivals, wait_for_customers
from bench.rows import Row, compared
from composition import Composition
from devstack.demo.databases import create_erp_tables
from devstack.demo.scenario import demo_stack
from devstack.processes import ROOT
from devstack.stack import Stack, run_folder
from models.job import Priority
from models.queue_message import QueueMessage
from services.outgoing import OutgoingMessage

#: Of each job.
MESSAGES = 10_000
_ROUNDS = 3
_BAR = 0.5

_JOB, _OTHER_JOB = "customers-to-erp", "customers-to-other"


def measure() -> list[Row]:
    """Return a row for each way to be down: messages a second, then and otherwise."""
    rates: dict[str, list[float]] = {"healthy": [], "refuses": [], "silent": []}
    for number in range(1, _ROUNDS + 1):
        for state, found in rates.items():
            found.append(_rate(state))
            print(f"fairness {number}/{_ROUNDS}: other target {state}: {found[-1]:.0f}/s")
    return [
        compared(
            "beside a target that refuses / healthy", rates["refuses"], rates["healthy"], _BAR
        ),
        compared(
            "beside a target that is silent / healthy", rates["silent"], rates["healthy"], None
        ),
    ]


def _rate(state: str) -> float:
    """Process both jobs' messages on a stack of their own; return the first job's rate."""
    with (
        run_folder("bench") as folder,
        demo_stack(folder, configuration=_configuration(folder)) as (stack, databases),
        _other_target(stack, state) as url,
    ):
        # The timer must not send anything of its own.
        stack.settings = {
            **stack.settings,
            "OTHER_DATABASE_URL": url,
            "SYNC_GET_CHANGES_SCHEDULE": "0 0 0 1 1 *",
        }
        databases.insert_customers(1, MESSAGES)
        note_arrivals(stack)
        _send(stack, changes_of(stack, _JOB))
        stack.host.start()
        with psycopg.connect(stack.postgres.dsn("erp"), autocommit=True) as erp:
            wait_for_customers(erp, MESSAGES)
            return arrival_rate(erp)


def _configuration(folder: Path) -> Path:
    """Return the demonstration's configuration with a second job, to a target of its own."""
    copy = folder / "configuration"
    shutil.copytree(ROOT / "configuration", copy)
    other = {"name": "other", "system": "sql", "url": "${OTHER_DATABASE_URL}"}
    (copy / "connections" / "other.yaml").write_text(yaml.safe_dump(other), "utf-8")
    job = yaml.safe_load((copy / "jobs" / "customers-to-erp.yaml").read_text("utf-8"))
    job |= {"name": _OTHER_JOB, "target": "other"}
    (copy / "jobs" / "other.yaml").write_text(yaml.safe_dump(job), "utf-8")
    return copy


def _send(stack: Stack, messages: list[QueueMessage]) -> None:
    with Composition(stack.app_settings()).open_service_bus() as service_bus:
        for message in messages:
            for job_name in (_OTHER_JOB, _JOB):
                own = replace(message, job_name=job_name)
                service_bus.add_message_or_send(OutgoingMessage.of(own, Priority.NORMAL))
        service_bus.flush_batch()


def _other_target(stack: Stack, state: str) -> AbstractContextManager[str]:
    return {"healthy": _healthy, "refuses": _refusing, "silent": _silent}[state](stack)


@contextmanager
def _healthy(stack: Stack) -> Iterator[str]:
    stack.postgres.create_database("other")
    with psycopg.connect(stack.postgres.dsn("other"), autocommit=True) as other:
        create_erp_tables(other)
    yield stack.postgres.sqlalchemy_url("other")


@contextmanager
def _refusing(_stack: Stack) -> Iterator[str]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and never listens
        yield _url(closed)


@contextmanager
def _silent(_stack: Stack) -> Iterator[str]:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(4096)  # the system takes connections, and nobody answers
        yield _url(silent)


def _url(server: socket.socket) -> str:
    return f"postgresql+psycopg://somebody:something@127.0.0.1:{server.getsockname()[1]}/other"
