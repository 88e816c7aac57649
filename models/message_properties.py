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

#: On scheduled copies: the attempts before this copy, and how often it was put off.
CARRIED_ATTEMPTS = "CarriedAttempts"
POSTPONEMENTS = "Postponements"
