"""What caches raise. Each is a ValueError too, as callers of mlx-lm expect."""


class CacheError(ValueError):
    """Any error about a cache."""


class CacheNotTrimmable(CacheError):
    """Tokens cannot be taken back from at least one layer; no layer was changed."""


class CacheNotQuantizable(CacheError):
    """At least one layer cannot be quantized as asked; no layer was changed."""


class CacheNotBounded(CacheError):
    """The memory of at least one layer cannot be bounded."""


class CacheNotMergeable(CacheError):
    """Caches that cannot be rows of one batch."""


class UnknownCache(CacheError):
    """A cache class that the registry does not know."""


class PromptFileError(CacheError):
    """A prompt-cache file that cannot be written or read; the message names it."""
