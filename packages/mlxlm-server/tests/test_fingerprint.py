from typing import Any

import mlx.core as mx
import pytest
from mlxlm_server import fingerprint
from mlxlm_server.fingerprint import fingerprint as of


def test_the_same_weights_have_the_same_and_others_another(
    make_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model()
    first = of(model)
    assert of(make_model()) == first
    assert of(make_model(seed=1)) != first
    norm = model.model.norm
    norm.weight = norm.weight + 1e-3
    assert of(model) != first
    halved = make_model()
    halved.set_dtype(mx.bfloat16)
    assert of(halved) != first
    monkeypatch.setattr(fingerprint, "version", lambda name: "9.9.9")
    assert of(make_model()) != first
