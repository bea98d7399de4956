"""Forwards in NumPy's float64, of types that transformers lacks, a module per type.

Written from the papers and the models' public descriptions, with nothing of ours: each takes
the whole text, and attends to it by a mask. They are what a golden's logits come from; that
mlx-lm agrees is checked by `beside_mlx_lm.py`.
"""

from importlib import import_module
from pkgutil import iter_modules

from .blocks import Forward

FORWARDS: dict[str, Forward] = {}
for _module in iter_modules(__path__):
    if _module.name != "blocks":
        FORWARDS |= import_module(f"{__name__}.{_module.name}").FORWARDS
