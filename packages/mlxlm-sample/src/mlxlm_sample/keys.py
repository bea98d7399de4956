"""Random keys that belong to one request and depend on nothing but its seed and position."""

import mlx.core as mx


def fold_in(key: mx.array, data: int | mx.array) -> mx.array:
    """Return a new key made of `key` and a 32-bit number; different numbers, different keys.

    Shapes: a key is uint32 (2,). Keys (B, 2) with `data` () or (B,) give (B, 2), each row
    what it would be alone. The data goes into the key's high word and Threefry hashes the
    result, so that seeds below 2**32 never share a key.
    """
    data = mx.array(data, dtype=mx.uint32)
    word = mx.stack([data, mx.zeros_like(data)], axis=-1)
    mixed = key ^ word
    return mx.vmap(_hash)(mixed) if mixed.ndim == 2 else _hash(mixed)


def _hash(key: mx.array) -> mx.array:
    return mx.random.split(key, 1)[0]


class KeyStream:
    """The keys of one request: the key at a position depends on the seed and the position.

    What other requests draw, and in which order, changes nothing, so that a seeded request
    draws the same alone or in a batch.
    """

    def __init__(self, seed: int | mx.array) -> None:
        """Take a seed of 64 bits (negative ones too) or an MLX key, uint32 (2,)."""
        if isinstance(seed, mx.array):
            if seed.shape != (2,) or seed.dtype != mx.uint32:
                raise ValueError(
                    f"`key` has to be a uint32 array of shape (2,) from mx.random.key, "
                    f"but is {seed.dtype} {seed.shape}."
                )
            self.base = seed
        elif -(2**63) <= seed < 2**64:
            # Hashed: a position must not turn one seed's key into another's.
            self.base = _hash(mx.random.key(seed % 2**64))
        else:
            raise ValueError(f"`key` has to be a seed of 64 bits, but is {seed}.")
        mx.eval(self.base)  # Another thread, with another stream, may go on from here.

    def at(self, position: int | mx.array) -> mx.array:
        """Return the key, (2,), of a position, counted in tokens of the request from 0."""
        return fold_in(self.base, position)
