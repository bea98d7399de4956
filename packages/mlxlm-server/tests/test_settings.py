from typing import Any

import pytest
from mlxlm_server import ServerSettings


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("max_queue=0", {"max_queue": 0}),
        ("keepalive=-1", {"keepalive": -1}),
        ("empty key", {"api_keys": ("",)}),
        ("a is there twice", {"models": ("a", "a")}),
        ("b is not among the models", {"models": ("a",), "sources": {"b": "/x"}}),
        ("a is the name of a model", {"models": ("a",), "adapters": {"a": "/x"}}),
        ("adapters needs a model", {"adapters": {"a": "/x"}}),
        ("adapter_path needs a model", {"adapter_path": "/x"}),
        ("draft_model needs a model", {"draft_model": "x"}),
        ("requests choose whose code runs", {"trust_remote_code": True}),
        ("both guess", {"models": ("a",), "draft_model": "x", "ngram_draft": True}),
        ("exclude each other", {"chat_template": "x", "use_default_chat_template": True}),
    ],
)
def test_what_cannot_be_is_refused_by_name(said: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=said):
        ServerSettings(**wrong)
