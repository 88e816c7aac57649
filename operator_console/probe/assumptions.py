"""All that is tested, in the order in which it is: the long gap comes last."""

from operator_console.probe.administration import ADMINISTRATION
from operator_console.probe.locks import LOCKS
from operator_console.probe.peeking import PEEKING
from operator_console.probe.sending import SENDING
from operator_console.probe.settling import SETTLING

ASSUMPTIONS = (*ADMINISTRATION, *PEEKING, *SETTLING, *LOCKS, *SENDING)
