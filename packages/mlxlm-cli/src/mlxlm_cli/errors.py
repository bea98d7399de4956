"""Why a command stops. `run` turns these into exit codes."""


class CommandError(RuntimeError):
    """The command cannot do what was asked: one line on stderr, exit code 1."""


class UsageError(CommandError):
    """The flags do not go together, or ask for what is not there: exit code 2."""
