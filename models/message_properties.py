"""The application properties of our messages. The mover must know which of them report errors."""

#: On every message from detection on.
JOB_NAME = "JobName"
SOURCE_KEY = "SourceKey"

#: On every copy in a transitive queue or in `sbqignored`: where it came from.
ORIGINAL_QUEUE = "OriginalQueue"

#: What the last failure was; on copies the message and type only.
ERROR_MESSAGE = "ErrorMessage"
ERROR_TYPE = "ErrorType"
ERROR_STACK_TRACE = "ErrorStackTrace"
ERROR_TIME = "ErrorTime"
#: The number of the attempt that failed, counted over all copies of the message.
ERROR_DELIVERY_COUNT = "ErrorDeliveryCount"

#: On dead letters, written by the broker.
DEAD_LETTER_REASON = "DeadLetterReason"
DEAD_LETTER_ERROR_DESCRIPTION = "DeadLetterErrorDescription"

#: On scheduled copies: the attempts before this copy, and how often it was put off.
CARRIED_ATTEMPTS = "CarriedAttempts"
POSTPONEMENTS = "Postponements"

#: On resubmitted messages: the id under which the message failed.
PREVIOUS_MESSAGE_ID = "PreviousMessageId"

#: The trace that the change is part of: "Trace Context", W3C. Azure's own SDKs know it too.
TRACE_PARENT = "traceparent"

#: What tells of failures and attempts; a message that starts anew goes without.
ERROR_PROPERTIES = frozenset(
    {
        ORIGINAL_QUEUE,
        ERROR_MESSAGE,
        ERROR_TYPE,
        ERROR_STACK_TRACE,
        ERROR_TIME,
        ERROR_DELIVERY_COUNT,
        DEAD_LETTER_REASON,
        DEAD_LETTER_ERROR_DESCRIPTION,
        CARRIED_ATTEMPTS,
        POSTPONEMENTS,
    }
)

#: All of ours: strings, and numbers of 32 bits. Everything else somebody else put onto a message.
OUR_PROPERTIES = ERROR_PROPERTIES | {JOB_NAME, SOURCE_KEY, PREVIOUS_MESSAGE_ID, TRACE_PARENT}
