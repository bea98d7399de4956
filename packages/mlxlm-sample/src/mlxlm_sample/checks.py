"""Range checks shared by the options and the functions that take one setting each."""

import math
from collections.abc import Collection, Mapping

from mlxlm_sample.errors import SamplingOptionError


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_interval(argument: str, value: float, high: float) -> None:
    """Raise unless `value` is a number in [0, high]."""
    if not (is_number(value) and 0 <= value <= high):
        raise SamplingOptionError(
            argument,
            f"`{argument}` has to be a float in the [0, {high:g}] interval, but is {value}",
        )


def check_temp(value: float) -> None:
    if not (is_number(value) and math.isfinite(value) and value >= 0):
        raise SamplingOptionError(
            "temp", f"`temp` has to be a non-negative number, but is {value}; 0 means greedy."
        )


def check_positive_temp(value: float) -> None:
    check_temp(value)
    if value == 0:
        raise SamplingOptionError(
            "temp", "`temp` has to be above 0 to draw a token; take the argmax for temperature 0."
        )


def check_min_tokens_to_keep(value: int) -> None:
    if not (is_integer(value) and value >= 1):
        raise SamplingOptionError(
            "min_tokens_to_keep", f"`min_tokens_to_keep` must be a positive int, but is {value}."
        )


def check_top_k(value: int) -> None:
    """Check what can be known without the vocabulary's size."""
    if not (is_integer(value) and value >= 0):
        raise SamplingOptionError(
            "top_k", f"`top_k` has to be a non-negative integer, but is {value}; 0 turns it off."
        )


def check_penalty(argument: str, value: float) -> None:
    if not (is_number(value) and math.isfinite(value)):
        raise SamplingOptionError(
            argument, f"`{argument}` has to be a finite number, but is {value}; 0 turns it off."
        )


def check_repetition_penalty(value: float) -> None:
    if not (is_number(value) and math.isfinite(value) and value > 0):
        raise SamplingOptionError(
            "repetition_penalty",
            f"`repetition_penalty` has to be a positive number, but is {value}; "
            "None (or 1) turns it off.",
        )


def check_context_size(argument: str, value: int | None) -> None:
    if value is not None and not (is_integer(value) and value >= 1):
        raise SamplingOptionError(
            argument,
            f"`{argument}` has to be a positive integer, but is {value}; "
            "None looks at the whole history.",
        )


def check_token_ids(argument: str, ids: Collection[int]) -> None:
    """Raise unless `ids` holds only non-negative integers."""
    for token in ids:
        if not (is_integer(token) and token >= 0):
            raise SamplingOptionError(
                argument, f"`{argument}` has to hold token ids (integers from 0), not {token!r}."
            )


def check_logit_bias(bias: Mapping[int, float]) -> None:
    """Raise unless ids map to numbers; -inf bans a token, +inf and NaN mean nothing."""
    check_token_ids("logit_bias", list(bias))
    for token, value in bias.items():
        if not (is_number(value) and value < math.inf):
            raise SamplingOptionError(
                "logit_bias", f"`logit_bias` of token {token} has to be a number, but is {value}."
            )


def check_within(argument: str, token: int, size: int) -> None:
    """Raise unless `token` is in a vocabulary of `size`."""
    if token >= size:
        raise SamplingOptionError(
            argument, f"`{argument}` names token {token}, outside the vocabulary of {size}."
        )
