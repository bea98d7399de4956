"""An HTTP server for language models on MLX, with OpenAI's API."""

from typing import TYPE_CHECKING

from mlxlm_cache.lazy import attach

if TYPE_CHECKING:
    from mlxlm_server.app import create_app as create_app
    from mlxlm_server.errors import ApiError as ApiError
    from mlxlm_server.run import serve as serve
    from mlxlm_server.settings import ServerSettings as ServerSettings
    from mlxlm_server.structured.compiled import GrammarConstraint as GrammarConstraint
    from mlxlm_server.structured.compiled import Grammars as Grammars
    from mlxlm_server.structured.grammar import Grammar as Grammar
    from mlxlm_server.structured.grammar import GrammarError as GrammarError

__getattr__, __dir__ = attach(
    __name__,
    {
        "app": ("create_app",),
        "errors": ("ApiError",),
        "run": ("serve",),
        "settings": ("ServerSettings",),
        "structured.compiled": ("GrammarConstraint", "Grammars"),
        "structured.grammar": ("Grammar", "GrammarError"),
    },
)
