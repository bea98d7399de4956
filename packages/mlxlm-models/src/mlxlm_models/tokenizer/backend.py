"""transformers, imported when it is needed and without its advice about PyTorch."""

import logging
import sys
from types import ModuleType


def import_transformers() -> ModuleType:
    """Return the module `transformers`.

    Only its tokenizers are used here, so the note that PyTorch is missing is kept off stderr.
    """
    if "transformers" in sys.modules:
        return sys.modules["transformers"]
    logger = logging.getLogger("transformers")
    logger.addFilter(_about_other_things)
    try:
        import transformers
    finally:
        logger.removeFilter(_about_other_things)
    return transformers


def _about_other_things(record: logging.LogRecord) -> bool:
    return "PyTorch was not found" not in record.getMessage()
