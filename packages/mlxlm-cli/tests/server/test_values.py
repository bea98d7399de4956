from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from mlxlm_cli.server.values import Named, api_keys, named, template


def test_a_model_has_its_own_name_or_the_one_given(tmp_path: Path) -> None:
    model = named()
    assert model("org/name") == Named("org/name", "org/name")
    assert model("package:x") == Named("package:x", "package:x")
    assert model(f"small={tmp_path}") == Named("small", str(tmp_path))
    assert model("small=~/x") == Named("small", str(Path.home() / "x"))


def test_clients_are_told_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = named()
    assert model(str(tmp_path)) == Named(tmp_path.name, str(tmp_path))
    assert model("/models/tiny.gguf") == Named("tiny", "/models/tiny.gguf")
    (tmp_path / "a=b").mkdir()
    monkeypatch.chdir(tmp_path)
    assert model("a=b") == Named("a=b", "a=b")
    assert model(".") == Named(tmp_path.name, ".")


@pytest.mark.parametrize("text", ["path", "=path", "name=", "../a=b"])
def test_an_adapter_needs_a_name(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="NAME=DIRECTORY"):
        named("DIRECTORY")(text)


def test_keys_come_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys"
    file.write_text("one\n\ntwo\n")
    assert api_keys(f"file:{file}") == ("one", "two")
    monkeypatch.setenv("A_KEY", "three")
    assert api_keys("env:A_KEY") == ("three",)
    file.write_text("\n")
    for text, said in ((f"file:{file}", "no key in it"), ("env:B_KEY", "B_KEY is not set")):
        with pytest.raises(ArgumentTypeError, match=said):
            api_keys(text)
    file.write_text("ké\n")
    with pytest.raises(ArgumentTypeError, match="printable ASCII"):
        api_keys(f"file:{file}")


def test_a_template_is_text_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "t.jinja"
    file.write_text("{{ x }}")
    assert template("{{ x }}") == template(f"@{file}") == "{{ x }}"
    file.write_bytes(b"\xff")
    with pytest.raises(ArgumentTypeError, match="UTF-8"):
        template(f"@{file}")
