from mlxlm_generate import GenerationError, InvalidOption, InvalidPrompt, NotSupported


def test_each_is_also_what_callers_of_the_reference_catch() -> None:
    assert issubclass(InvalidPrompt, (GenerationError)) and issubclass(InvalidPrompt, ValueError)
    assert issubclass(InvalidOption, (GenerationError)) and issubclass(InvalidOption, ValueError)
    assert issubclass(NotSupported, GenerationError)
    assert issubclass(NotSupported, NotImplementedError)
