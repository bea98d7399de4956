from pathlib import Path

import pytest
from mlxlm_models.registry import get_architecture, list_architectures
from mlxlm_models.table import golden_configs, main, markdown

HERE = Path(__file__).parent
START, END = "<!-- table of architectures -->\n", "<!-- end of the table -->"


def test_the_table_in_the_documentation_is_the_registry() -> None:
    """Else: python -m mlxlm_models.table tests/goldens, and put it between the markers."""
    text = (HERE.parent / "ARCHITECTURES.md").read_text(encoding="utf-8")
    written = text.partition(START)[2].partition(END)[0]
    assert written.strip() == markdown(golden_configs(HERE / "goldens")).strip()


def test_every_type_is_in_the_table_and_proven() -> None:
    lines = markdown(golden_configs(HERE / "goldens")).splitlines()[2:]
    assert len(lines) == len({get_architecture(name).model_type for name in list_architectures()})
    for name in list_architectures():
        assert any(f"`{name}`" in line for line in lines)
    assert [line for line in lines if line.endswith("| 0 |")] == []


def test_rows_say_what_is_known() -> None:
    lines = markdown(golden_configs(HERE / "goldens")).splitlines()
    assert "| `gemma2` |  | `gemma2.py` | KVCache, RotatingKVCache | yes | 1 |" in lines
    assert (
        "| `deepseek_v3` | `joyai_llm_flash`, `kimi_k2` | `deepseek_v3.py` | KVCache | yes | 1 |"
        in lines
    )


def test_a_folder_without_goldens_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["table", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert "has no goldens" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["table", str(HERE / "goldens")])
    main()
    assert capsys.readouterr().out == markdown(golden_configs(HERE / "goldens"))
