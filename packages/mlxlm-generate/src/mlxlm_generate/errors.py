"""What can be wrong with a request to generate. Each message ends with the way out."""


class GenerationError(Exception):
    """Base of this package's errors."""


class InvalidPrompt(GenerationError, ValueError):
    """The prompt is empty, or isn't one sequence of token ids."""


class InvalidOption(GenerationError, ValueError):
    """An option is out of range, or contradicts another one."""


class NotSupported(GenerationError, NotImplementedError):
    """What is asked for does not exist here."""


class DraftMismatch(GenerationError, ValueError):
    """A draft model's token ids mean something else than the target's."""
