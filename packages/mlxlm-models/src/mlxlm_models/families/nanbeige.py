"""Nanbeige: Llama, as long as its layers are gone through once."""

from dataclasses import dataclass

from mlxlm_models.architecture import Architecture
from mlxlm_models.families.common import DecoderConfig, causal_lm


@dataclass(frozen=True, kw_only=True)
class NanbeigeConfig(DecoderConfig):
    num_loops: int = 1
    enable_depth_attention: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_loops != 1:
            raise self.fail("num_loops", f"{self.num_loops} passes are not computed here")
        if self.enable_depth_attention:
            raise self.fail("enable_depth_attention", "it is not computed here")


ARCHITECTURE = Architecture("nanbeige", NanbeigeConfig, causal_lm)
