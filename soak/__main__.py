"""`python -m soak [--changes N] [--seed N]`: run the fault campaign and print its books.

0: the invariant held; 1: it did not, or a server failed: the folder with the logs stays; 2: bad
usage; 130: Ctrl-C or a signal.
"""

import argparse
import secrets
import sys
from datetime import datetime
from pathlib import Path

from devstack.demo.scenario import run_command
from soak.campaign import Plan, must_hold, run
from soak.report import report
from soak.scene import open_scene

_SEEDS = 1_000_000
_FEWEST = 200


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="soak", description="The fault campaign.")
    parser.add_argument("--changes", type=_changes, default=20_000, help="at the source, about")
    parser.add_argument("--seed", type=int, help="of an earlier run, for the same faults")
    options = parser.parse_args()
    seed = secrets.randbelow(_SEEDS) if options.seed is None else options.seed
    plan = Plan.of(options.changes, seed)
    return run_command("soak", lambda folder: _play(folder, plan))


def _changes(text: str) -> int:
    if not text.isdecimal() or int(text) < _FEWEST:
        msg = f"{text!r} is not a number of changes; give {_FEWEST} or more"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _play(folder: Path, plan: Plan) -> None:
    _tell(f"seed {plan.seed}: {plan.changes:,} changes, {len(plan.faults)} faults; {folder}")
    with open_scene(folder) as scene:
        result = run(scene, plan, _tell)
        for line in report(result):
            print(line)
    must_hold(result, folder)


def _tell(what: str) -> None:
    print(f"{datetime.now().astimezone():%H:%M:%S}  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
