"""`python -m dead_letter_mover`."""

import logging

from dead_letter_mover.cli import main

# The SDK logs what its exceptions say again, and theirs is not the sentence for an operator.
logging.getLogger("azure").setLevel(logging.CRITICAL)

main(prog_name="python -m dead_letter_mover")
