from argparse import ArgumentTypeError

import pytest
from mlxlm_cli.arguments.values import (
    boolean,
    integer,
    json_object,
    number,
    size,
    template_settings,
    utf_8,
)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("T", True), ("FALSE", False), ("f", False)]
)
def test_boolean_takes_words_and_their_first_letters_in_any_case(text: str, value: bool) -> None:
    assert boolean(text) is value


@pytest.mark.parametrize("text", ["", "yes", "1"])
def test_boolean_refuses_other_words(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="true or false"):
        boolean(text)


def test_integer_has_a_least_value_and_one_exception() -> None:
    assert integer(0, also=-1)("-1") == -1
    assert integer(1)("7") == 7
    with pytest.raises(ArgumentTypeError, match="at least 0, or -1, but is -2"):
        integer(0, also=-1)("-2")
    with pytest.raises(ArgumentTypeError, match="whole number"):
        integer(1)("1.5")


@pytest.mark.parametrize("text", ["-0.1", "1.1", "nan", "inf", "half"])
def test_number_refuses_what_is_outside_or_no_number(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        number(0, 1)(text)


def test_number_takes_both_ends() -> None:
    assert [number(0, 0.5)(text) for text in ("0", "0.5")] == [0.0, 0.5]


@pytest.mark.parametrize(("text", "why"), [("{x", "isn't JSON"), ("[1]", "JSON object")])
def test_json_object_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ArgumentTypeError, match=why):
        json_object(text)


def test_json_object_returns_the_object() -> None:
    assert json_object('{"enable_thinking": false}') == {"enable_thinking": False}


@pytest.mark.parametrize("name", ["tokenize", "add_generation_prompt", "messages"])
def test_template_settings_are_not_what_the_command_decides(name: str) -> None:
    with pytest.raises(ArgumentTypeError, match=f"'{name}' is no setting of a template"):
        template_settings(f'{{"{name}": false}}')
    assert template_settings('{"enable_thinking": false}') == {"enable_thinking": False}


def test_utf_8_is_taken_whatever_the_locale_and_nothing_else() -> None:
    assert utf_8("漢字") == "漢字"
    assert utf_8("漢字".encode().decode("ascii", "surrogateescape")) == "漢字"  # a C locale
    with pytest.raises(ArgumentTypeError, match="isn't valid UTF-8"):
        utf_8("a\udcff")


def test_integer_has_a_greatest_value() -> None:
    with pytest.raises(ArgumentTypeError, match="65535 at most"):
        integer(0, most=65535)("70000")


@pytest.mark.parametrize(
    ("text", "bytes"),
    [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("8GB", 8 * 10**9),
        ("8g", 8 * 10**9),
        ("1.5 KiB", 1536),
        ("16GiB", 16 * 2**30),
    ],
)
def test_size_takes_bytes_and_units(text: str, bytes: int) -> None:
    assert size()(text) == bytes


@pytest.mark.parametrize("text", ["", "GB", "-1", "8XB", "8Gi", "1e9"])
def test_size_refuses_what_is_none(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="size such as"):
        size()(text)


def test_size_has_a_least_value() -> None:
    with pytest.raises(ArgumentTypeError, match="at least 1 bytes"):
        size(1)("0")
