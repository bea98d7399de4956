"""Errors of mlxlm-models. Each message says what is wrong, then what to do."""


class ModelError(ValueError):
    """A model cannot be found, read or built."""


class SourceError(ModelError, FileNotFoundError):
    """There is no model at the given name or path."""


class ConfigError(ModelError):
    """A configuration file is missing, broken or contradicts itself."""


class UnknownArchitecture(ModelError):
    """No architecture is registered for a `model_type`."""


class WeightsError(ModelError):
    """Tensors are missing, unexpected, truncated or of the wrong shape."""


class TokenizerError(ModelError):
    """A tokenizer or chat template cannot be read or applied."""


class RemoteCodeError(ModelError):
    """A checkpoint wants to run its own code and was not trusted."""
