"""`python -m dead_letter_mover`."""

import io
import logging
import sys

from dead_letter_mover.cli import main

# The SDK logs what its exceptions say again, and theirs is not the sentence for an operator.
logging.getLogger("azure").setLevel(logging.CRITICAL)

# A console of another encoding shows what it can.
for stream in (sys.stdout, sys.stderr):
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")

main(prog_name="python -m dead_letter_mover")
