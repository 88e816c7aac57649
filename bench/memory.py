"""Peak memory of a process, and of nothing else.

A process that is started inherits the peak of its starter: what `rusage` says of it is the larger
of both. So a benchmark that holds much asks a small process to start the one that it measures:
`python -m bench.memory MODULE ARGUMENT…` runs it and prints its peak in kilobytes.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def own_peak_kb() -> int:
    """Return this process's own peak, where the system tells it apart (Linux)."""
    if _STATUS.exists():
        for line in _STATUS.read_text("ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> int:
    """Return the exit status of the module."""
    process = subprocess.Popen(  # noqa: S603 - our own modules
        [sys.executable, "-m", *sys.argv[1:]], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    print(usage.ru_maxrss)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
