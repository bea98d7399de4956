from mlxlm_generate import GenerationError, InvalidOption, InvalidPrompt, NotSupported


def test_each_is_also_what_callers_of_the_reference_catch() -> None:
    assert set(InvalidPrompt.__bases__) == {GenerationError, ValueError}
    assert set(InvalidOption.__bases__) == {GenerationError, ValueError}
    assert set(NotSupported.__bases__) == {GenerationError, NotImplementedError}
