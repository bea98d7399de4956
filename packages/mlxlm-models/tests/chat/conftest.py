"""A byte tokenizer with turn markers, to apply templates with."""

import pytest
from mlxlm_models.tokenizer.backend import import_transformers
from mlxlm_models.tokenizer.wrapper import TokenizerWrapper
from tokenizers import Tokenizer, decoders, models, pre_tokenizers


@pytest.fixture
def tokenizer() -> TokenizerWrapper:
    return byte_tokenizer()


def byte_tokenizer() -> TokenizerWrapper:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    fast = import_transformers().PreTrainedTokenizerFast
    return TokenizerWrapper(fast(tokenizer_object=backend, eos_token="<|endoftext|>"))
