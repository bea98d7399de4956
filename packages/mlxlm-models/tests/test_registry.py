import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from mlxlm_models import registry
from mlxlm_models.architecture import Architecture
from mlxlm_models.errors import UnknownArchitecture
from mlxlm_models.families import llama
from mlxlm_models.registry import get_architecture, list_architectures, register_architecture


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Forget what was loaded, and everything a test adds, afterwards."""
    monkeypatch.setattr(registry, "_registered", {})
    registry._entries.cache_clear()
    yield monkeypatch
    registry._entries.cache_clear()


def declare(monkeypatch: pytest.MonkeyPatch, *entries: tuple[str, str]) -> None:
    found = [EntryPoint(name, value, registry.GROUP) for name, value in entries]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)


def test_every_declared_architecture_loads_under_its_name_or_is_an_alias() -> None:
    for name in list_architectures():
        arch = get_architecture(name)
        assert isinstance(arch, Architecture)
        assert get_architecture(arch.model_type) is arch


def test_an_unknown_type_names_the_nearest_known() -> None:
    with pytest.raises(UnknownArchitecture, match=r"'qwen22'; the nearest known are qwen2, "):
        get_architecture("qwen22")
    with pytest.raises(UnknownArchitecture, match="nothing known is near it"):
        get_architecture("zzzzzzzz")


def test_only_the_family_asked_for_is_imported() -> None:
    code = (
        "import sys; from mlxlm_models.registry import get_architecture, list_architectures\n"
        "list_architectures(); assert not any('families.' in m for m in sys.modules)\n"
        "get_architecture('llama'); assert 'mlxlm_models.families.phi3' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_alias_is_one_more_entry_point(empty: pytest.MonkeyPatch) -> None:
    declare(empty, ("llama-alias", "mlxlm_models.families.llama:ARCHITECTURE"))
    assert get_architecture("llama-alias") is llama.ARCHITECTURE


def test_another_distribution_wins_over_ours_and_says_so(
    empty: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    declare(
        empty,
        ("llama", "other.models:ARCH"),
        ("llama", "mlxlm_models.families.llama:ARCHITECTURE"),
    )
    assert registry._entries()["llama"].value == "other.models:ARCH"
    assert "'llama': using the architecture of other.models" in caplog.text


def test_an_entry_point_that_is_no_architecture_is_refused(empty: pytest.MonkeyPatch) -> None:
    declare(empty, ("odd", "json:dumps"))
    with pytest.raises(UnknownArchitecture, match=r"'odd' of json gives .* not an Architecture"):
        get_architecture("odd")


def test_an_architecture_can_be_registered_in_the_process(empty: pytest.MonkeyPatch) -> None:
    mine = replace(llama.ARCHITECTURE, model_type="mine")
    register_architecture(mine)
    assert get_architecture("mine") is mine
    assert "mine" in list_architectures()
