from typing import Any

import pytest


def run(command: Any, code: str) -> str:
    done = command("python", "-c", code)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return str(done.stdout)


def test_import_is_cheap(command: Any) -> None:
    code = "import sys, mlx_lm; print({'mlx', 'transformers', 'numpy'} & set(sys.modules))"
    assert run(command, code) == "set()\n"


@pytest.mark.parametrize(
    "imports",
    [
        "from mlx_lm import generate; from mlx_lm.generate import stream_generate",
        "import mlx_lm.generate; from mlx_lm import generate",
        "from mlx_lm.generate import generate_step; from mlx_lm import generate",
        "import mlx_lm.generate as generate",
    ],
)
def test_generate_is_the_function_whatever_was_imported_first(command: Any, imports: str) -> None:
    code = f"{imports}\nimport mlxlm_generate\nassert generate is mlxlm_generate.generate"
    assert run(command, code) == ""


def test_the_modules_of_mlx_lm_serve_our_names(command: Any) -> None:
    code = """
import mlxlm_cache, mlxlm_generate, mlxlm_models, mlxlm_sample
from mlx_lm import load, stream_generate
from mlx_lm.models.cache import make_prompt_cache, load_prompt_cache, KVCache
from mlx_lm.sample_utils import make_logits_processors, make_sampler
from mlx_lm.tokenizer_utils import TokenizerWrapper
from mlx_lm.utils import load as also_load
assert load is also_load is mlxlm_models.load
assert stream_generate is mlxlm_generate.stream_generate
assert make_prompt_cache is mlxlm_cache.make_prompt_cache
assert make_sampler is mlxlm_sample.make_sampler
assert TokenizerWrapper is mlxlm_models.TokenizerWrapper
"""
    assert run(command, code) == ""


def test_what_is_not_there_yet_is_not_there(command: Any) -> None:
    code = """
import mlx_lm
for name in ("batch_generate", "convert"):
    assert not hasattr(mlx_lm, name), name
try:
    import mlx_lm.lora
except ModuleNotFoundError as error:
    print(error)
try:
    from mlx_lm.models.cache import NoSuchCache
except ImportError as error:
    print(error)
"""
    out = run(command, code)
    assert "mlx_lm.lora" in out
    assert "NoSuchCache" in out


def test_star_and_dir_name_what_is_there(command: Any) -> None:
    code = "from mlx_lm import *\nimport mlx_lm\nprint(load, generate, dir(mlx_lm))"
    out = run(command, code)
    assert "['__version__', 'generate', 'load', 'stream_generate']" in out


def test_the_function_is_not_replaced_unnoticed(command: Any) -> None:
    code = """
import mlx_lm
try:
    mlx_lm.generate = print
except AttributeError as error:
    print(error)
"""
    assert "can't be replaced" in run(command, code)
