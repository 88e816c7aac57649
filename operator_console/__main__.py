"""`python -m operator_console`."""

import logging

from operator_console.cli import main

# The SDKs log what their exceptions say again, and theirs is not the sentence for an operator.
logging.getLogger("azure").setLevel(logging.CRITICAL)
logging.getLogger("urllib3").setLevel(logging.CRITICAL)

main(prog_name="python -m operator_console")
