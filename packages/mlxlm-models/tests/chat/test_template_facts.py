import pytest
from mlxlm_models.chat.template_facts import read_template
from mlxlm_models.errors import TokenizerError


def test_variables_are_what_comes_from_outside() -> None:
    facts = read_template(
        "{% set inner = 1 %}{% for m in messages %}{{ m.role }}{{ inner }}{% endfor %}"
        "{% if tools is defined %}{{ raise_exception('no') }}{% endif %}"
    )
    assert facts.variables == {"messages", "tools", "raise_exception"}


def test_wording_has_strings_with_escapes_resolved_and_no_comments() -> None:
    facts = read_template("{# <secret> #}<plain>{{ '<a>\\n<b>' + x.name }}")
    assert facts.mentions("<plain>")
    assert facts.mentions("<a>\n<b>")
    assert facts.mentions("x.name")
    assert not facts.mentions("<secret>")


def test_the_dialect_of_chat_templates_parses() -> None:
    facts = read_template(
        "{%- for m in messages %}{% if loop.first %}{% continue %}{% endif %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    assert facts.variables == {"messages"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a\n{% if x %}\nb", r"line 3: Unexpected end of template.*'if'"),
        ("a\n{{ x + }}", r"line 2: .*\(\{\{ x \+ \}\}\)"),
        ("{% nonsense %}", r"line 1: .*nonsense"),
    ],
)
def test_syntax_errors_name_line_and_reason(source: str, message: str) -> None:
    with pytest.raises(TokenizerError, match=message):
        read_template(source)
