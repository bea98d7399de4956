from dataclasses import dataclass

from mlxlm_models.layers.spec import recast


@dataclass(frozen=True)
class Plain:
    size: int
    bias: bool = False


@dataclass(frozen=True)
class Special(Plain):
    gain: float = 1.0


def test_recast_keeps_the_fields_and_adds_those_of_the_new_kind() -> None:
    assert recast(Special, Plain(3, True), gain=2.0) == Special(3, True, 2.0)
    assert recast(Special, Plain(3), size=4) == Special(4)
