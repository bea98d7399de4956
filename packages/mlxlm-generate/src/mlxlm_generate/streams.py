"""The MLX stream that generation computes on."""

from functools import cache

import mlx.core as mx


def generation_stream() -> mx.ThreadLocalStream:
    """Return the default device's generation stream: one handle, a stream per thread.

    A plain stream works only in the thread that made it. With this handle whichever
    thread generates computes on its own stream, made at first use (R58).
    """
    return _stream(mx.default_device().type)


@cache
def _stream(kind: mx.DeviceType) -> mx.ThreadLocalStream:
    return mx.new_thread_local_stream(mx.Device(kind))
