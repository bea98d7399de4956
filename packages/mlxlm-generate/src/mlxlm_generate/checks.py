"""Checks of options that several ways to generate share."""

from typing import Any

from mlxlm_generate.errors import InvalidOption


def check_max_tokens(value: Any) -> None:
    """Raise InvalidOption unless `value` is a whole number from -1, of whatever integer type.

    Of a fraction, a count of tokens would never reach it.
    """
    if not hasattr(value, "__index__") or value < -1:
        raise InvalidOption(
            f"max_tokens={value!r}: give a whole number, 0 or more, or -1 for no end."
        )


def check_prefill_step_size(value: Any) -> None:
    """Raise InvalidOption unless `value` is a whole number from 1."""
    if not hasattr(value, "__index__") or value < 1:
        raise InvalidOption(f"prefill_step_size={value!r}: give a whole number, 1 or more.")
