import mlx.core as mx
from mlxlm_models.layers.short_conv import ShortConv


def layer() -> ShortConv:
    made = ShortConv(6, 4)
    made.weight = mx.random.normal((6, 4, 1))
    return made


def test_the_sums_are_those_of_a_causal_depthwise_convolution() -> None:
    conv, x = layer(), mx.random.normal((2, 9, 6))
    padded = mx.pad(x, [(0, 0), (3, 0), (0, 0)])
    expected = mx.conv1d(padded, conv.weight, groups=6)
    y, state = conv(x, None)
    assert mx.allclose(y, expected, atol=1e-6).item()
    assert mx.array_equal(state, x[:, -3:]).item()


def test_parts_equal_the_whole_however_short() -> None:
    conv, x = layer(), mx.random.normal((1, 7, 6))
    whole, _ = conv(x, None)
    state, parts = None, []
    for part in (x[:, :1], x[:, 1:3], x[:, 3:]):
        y, state = conv(part, state)
        parts.append(y)
    assert mx.allclose(mx.concatenate(parts, axis=1), whole, atol=1e-6).item()


def test_padding_after_a_row_is_not_remembered() -> None:
    conv, x = layer(), mx.random.normal((2, 5, 6))
    _, state = conv(x, None, mx.array([2, 5]))
    _, alone = conv(x[:1, :2], None)
    assert mx.array_equal(state[:1], alone).item()
    assert mx.array_equal(state[1], x[1, -3:]).item()
