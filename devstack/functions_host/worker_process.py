"""The host's side of the worker: start it, hand it invocations, end it, start it again.

One thread supervises: it starts a process, reads its answers until the socket closes, fails what
was in flight and starts the next one. A second thread looks for invocations over their time.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from devstack.functions_host.errors import AppError
from devstack.functions_host.frames import Decoder, Frame, Kind, Outbox
from devstack.functions_host.invocations import Call, Function, Lost, Outcome, Raised, Returned

_LOG = logging.getLogger("functions_host.worker")

#: The platform gives a worker this long to start and index.
START_LIMIT = timedelta(seconds=60)

_ROOT = Path(__file__).parents[2]
_BOOT = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from devstack.functions_host.worker_main import main; main(*sys.argv[2:])"
)
_READ_SIZE = 1 << 18
_WATCH_SECONDS = 0.1
_DRAIN_POLL_SECONDS = 0.02
_FIRST_BACKOFF_SECONDS = 1.0
_LONGEST_BACKOFF_SECONDS = 5.0


@dataclass(slots=True)
class _Pending:
    call: Call
    deadline: float | None
    timed_out: bool = False


@dataclass
class _Session:
    """One life of the worker process, and what is in flight in it."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    outbox: Outbox
    started: float = field(default_factory=time.monotonic)
    indexed: bool = False
    obituary: str = "the worker process died"
    pending: dict[str, _Pending] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    closed: bool = False

    def add(self, calls: Sequence[Call], deadline: float | None) -> bool:
        """Note the calls as in flight; False where this life is already over."""
        with self.lock:
            if not self.closed:
                self.pending.update({call.id: _Pending(call, deadline) for call in calls})
            return not self.closed

    def close(self) -> list[_Pending]:
        """Take no more calls and return those that were in flight."""
        with self.lock:
            self.closed = True
            left = list(self.pending.values())
            self.pending.clear()
            return left

    def overdue(self, now: float) -> list[_Pending]:
        """Return what has run over its time."""
        with self.lock:
            return [p for p in self.pending.values() if p.deadline is not None and p.deadline < now]

    def kill(self, why: str) -> None:
        """End the process and everything that it started."""
        self.obituary = why
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


class WorkerProcess:
    """The worker, alive again a moment after each of its deaths."""

    def __init__(
        self,
        app: Path,
        *,
        environment: Mapping[str, str],
        log_level: int,
        function_timeout: timedelta | None,
    ) -> None:
        self._app = app
        self._environment = environment
        self._log_level = log_level
        self._timeout = function_timeout
        self._session: _Session | None = None
        self._stopping = threading.Event()
        self._first_answer = threading.Event()
        self._first_error: AppError | None = None
        self._threads: list[threading.Thread] = []
        self.functions: tuple[Function, ...] = ()
        #: Set while a worker is there to take invocations.
        self.ready = threading.Event()
        #: Called with the new process id after each indexing but the first.
        self.on_restart: Callable[[int], None] = lambda _pid: None
        #: Called at a death, before the invocations in flight are failed.
        self.on_death: Callable[[], None] = lambda: None

    @property
    def pid(self) -> int:
        """The process id of the worker that was started last."""
        return self._session.process.pid if self._session else 0

    def start(self) -> tuple[Function, ...]:
        """Start the first worker and return what it found, or raise AppError."""
        for target in (self._supervise, self._watch):
            thread = threading.Thread(target=target, name=f"worker{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._first_answer.wait()
        if self._first_error is not None:
            self.stop()
            raise self._first_error
        return self.functions

    def invoke(self, calls: Sequence[Call]) -> None:
        """Hand `calls` to the worker. Each gets its outcome once, on a thread of ours."""
        deadline = time.monotonic() + self._timeout.total_seconds() if self._timeout else None
        session = self._session
        if session is None or not session.add(calls, deadline):
            for call in calls:
                call.done(Lost("the worker process is not there"))
            return
        session.outbox.send([call.frame for call in calls])

    async def is_ready(self) -> bool:
        """Wait while the worker restarts; False where it has not come back in the start limit."""
        return self.ready.is_set() or await asyncio.to_thread(
            self.ready.wait, START_LIMIT.total_seconds()
        )

    def drain(self, limit: timedelta) -> int:
        """Wait at most `limit` for the invocations in flight and return how many are left."""
        end = time.monotonic() + limit.total_seconds()
        while self._in_flight() and time.monotonic() < end:
            time.sleep(_DRAIN_POLL_SECONDS)
        return self._in_flight()

    def _in_flight(self) -> int:
        return len(self._session.pending) if self._session else 0

    def stop(self) -> None:
        """End the worker for good; what is in flight is lost."""
        self._stopping.set()
        if self._session is not None:
            self._session.kill("the host stops")
        for thread in self._threads:
            thread.join()
        # Whoever still waits for a worker goes on, and learns that there is none.
        self.ready.set()

    def _supervise(self) -> None:
        backoff = _FIRST_BACKOFF_SECONDS
        while not self._stopping.is_set():
            if self._live_once():
                backoff = _FIRST_BACKOFF_SECONDS
            else:
                self._stopping.wait(backoff)
                backoff = min(backoff * 2, _LONGEST_BACKOFF_SECONDS)

    def _live_once(self) -> bool:
        """See one worker from its start to its end; False where it never got to serve."""
        try:
            session = self._spawn()
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the answer
            self._refuse_or_log(f"the worker cannot be started: {type(error).__name__}: {error}")
            return False
        if self._stopping.is_set():
            session.kill("the host stops")
        try:
            self._read(session)
        finally:
            self._bury(session)
        return session.indexed

    def _refuse_or_log(self, text: str) -> None:
        """Let the start fail with `text`, or log it where the host has started already."""
        if self._first_answer.is_set():
            _LOG.error("%s", text)
        else:
            self._first_error = AppError(text)
            self._first_answer.set()

    def _spawn(self) -> _Session:
        ours, theirs = socket.socketpair()
        with theirs, ExitStack() as undo:
            undo.callback(ours.close)
            arguments = [str(_ROOT), str(theirs.fileno()), str(self._app), str(self._log_level)]
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-P", "-c", _BOOT, *arguments],
                cwd=self._app,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=(theirs.fileno(),),
                # A Ctrl-C in the terminal is the host's to handle, which gives a grace time.
                start_new_session=True,
            )
            undo.pop_all()
        self._session = _Session(process, ours, Outbox(ours))
        return self._session

    def _read(self, session: _Session) -> None:
        takers = {
            Kind.RESULT: self._finish,
            Kind.LOG: self._log,
            Kind.INDEXED: self._indexed,
            Kind.REFUSED: self._refused,
        }
        decoder = Decoder()
        while data := _receive(session.connection):
            for frame in decoder.feed(data):
                takers[frame.kind](session, frame)

    def _finish(self, session: _Session, frame: Frame) -> None:
        with session.lock:
            pending = session.pending.pop(frame.header["id"], None)
        if pending is not None:
            pending.call.done(_outcome(frame))

    def _log(self, session: _Session, frame: Frame) -> None:
        header = frame.header
        pending = session.pending.get(header["invocation"] or "")
        name = pending.call.function if pending else "-"
        text = header["text"].replace("\n", "\n    ")
        invocation = header["invocation"] or "-"
        _LOG.log(header["level"], "%s %s [%s] %s", name, invocation, header["logger"], text)

    def _indexed(self, session: _Session, frame: Frame) -> None:
        session.indexed = True
        self.functions = tuple(Function(**function) for function in frame.header["functions"])
        self.ready.set()
        if self._first_answer.is_set():
            _LOG.warning("worker restarted, pid %d", self.pid)
            self.on_restart(self.pid)
        self._first_answer.set()

    def _refused(self, session: _Session, frame: Frame) -> None:
        error, trace = frame.header["error"], frame.header["trace"]
        self._refuse_or_log(f"{self._app}/function_app.py cannot be indexed: {error}\n{trace}")
        session.kill("the app could not be indexed")

    def _bury(self, session: _Session) -> None:
        self.ready.clear()
        session.kill(session.obituary)
        session.process.wait()
        session.connection.close()
        left = session.close()
        if not self._stopping.is_set():
            _LOG.error("%s (pid %d), %d in flight", session.obituary, self.pid, len(left))
        self.on_death()
        for pending in left:
            pending.call.done(Lost(session.obituary, pending.timed_out))
        if not self._first_answer.is_set():
            code = session.process.returncode
            self._refuse_or_log(
                f"{session.obituary} while it indexed {self._app} (exit status {code})"
            )

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_SECONDS):
            session = self._session
            if session is None or session.closed:
                continue
            now = time.monotonic()
            if not session.indexed and now - session.started > START_LIMIT.total_seconds():
                session.kill(f"the worker took more than {START_LIMIT} to start")
            for pending in session.overdue(now):
                call = pending.call
                pending.timed_out = True
                why = f"{call.function} {call.id} ran over functionTimeout {self._timeout}"
                session.kill(f"worker killed: {why}")
            if session.process.poll() is not None:
                # A child of the app may still hold the socket: the reader would wait for it.
                _shut_down(session.connection)


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_READ_SIZE)
    except OSError:
        return b""


def _shut_down(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _outcome(frame: Frame) -> Outcome:
    header = frame.header
    if "error" in header:
        return Raised(header["error"], header["place"], header["trace"], header["text"])
    return Returned(header.get("status"), header.get("headers", ()), frame.body)
