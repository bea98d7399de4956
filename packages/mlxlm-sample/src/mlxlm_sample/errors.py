"""What a wrong or useless sampling setting raises or warns."""


class SamplingOptionError(ValueError):
    """A sampling setting has a value it cannot have; `argument` is the setting's name."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(message)
        self.argument = argument


class SamplingWarning(UserWarning):
    """A sampling setting is legal but does nothing, or does more than was likely meant."""
