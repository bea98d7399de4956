from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from mlxlm_cache import KVCache, UnknownCache, cache_class, register_cache, registry
from mlxlm_cache.registry import cache_name


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))


@pytest.mark.parametrize(
    "name", ["KVCache", "ConcatenateKVCache", "QuantizedKVCache", "RotatingKVCache"]
)
def test_ours_are_found_by_entry_point(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_classes", {})
    cls = cache_class(name)
    assert cls.__name__ == name
    assert cache_name(cls) == name


def test_R16_a_registered_class_has_a_name_and_its_subclass_has_not() -> None:
    @register_cache("tests.mine")
    class Mine(KVCache):
        pass

    class Other(Mine):
        pass

    assert cache_class("tests.mine") is Mine
    assert cache_name(Mine) == "tests.mine"
    with pytest.raises(UnknownCache, match=r'Other is not registered.*@register_cache\("Other"\)'):
        cache_name(Other)


def test_R16_entry_points_register_what_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("Theirs", "mlxlm_cache.kv:KVCache", registry.GROUP)

    def installed(**selection: Any) -> EntryPoints:
        return EntryPoints([entry]).select(**selection)

    monkeypatch.setattr(registry, "entry_points", installed)
    assert cache_class("Theirs") is KVCache


def test_a_name_that_is_taken_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"'KVCache' is taken by mlxlm_cache\.kv\.KVCache"):

        @register_cache("KVCache")
        class KVCache2(KVCache):
            pass


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(UnknownCache, match="'KVCahe'; did you mean 'KVCache'"):
        cache_class("KVCahe")
