"""The project's own commands, run as an operator runs them."""

import os
import subprocess
import sys

from devstack.processes import ROOT, StackError


def run(failure: str, module: str, *arguments: str, **environment: str) -> str:
    """Return what the command prints; raise StackError with `failure` and its last words."""
    process = subprocess.run(  # noqa: S603 - the project's own command
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        # A Ctrl-C in the terminal is ours to handle: it ends the command too, then the servers.
        process_group=0,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if process.returncode:
        words = process.stderr.strip().splitlines() or ["it said nothing"]
        msg = f"{failure}: {words[-1]}"
        raise StackError(msg)
    return process.stdout
