import subprocess
import sys


def test_importing_transformers_says_nothing() -> None:
    """And importing our tokenizers does not import transformers at all."""
    code = (
        "import sys, mlxlm_models.tokenizer.wrapper, mlxlm_models.tokenizer.load, "
        "mlxlm_models.tokenizer.gguf\n"
        "assert 'transformers' not in sys.modules and 'jinja2' not in sys.modules\n"
        "from mlxlm_models.tokenizer.backend import import_transformers\n"
        "import_transformers().PreTrainedTokenizerFast"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
