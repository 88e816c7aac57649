"""What the host refuses, said in one sentence."""


class HostError(Exception):
    """The host cannot start. The message names what is wrong, where, and the remedy."""


class SettingsError(HostError):
    """A file or a setting is missing, malformed or asks for what is not supported here."""


class AppError(HostError):
    """The app could not be indexed. The message holds the exception and its traceback."""
