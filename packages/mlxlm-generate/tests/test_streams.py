from threading import Thread

import mlx.core as mx
from mlxlm_generate import generation_stream


def test_R58_one_handle_computes_in_any_thread() -> None:
    stream = generation_stream()
    assert generation_stream() is stream
    sums: list[object] = []

    def work() -> None:
        with mx.stream(generation_stream()):
            sums.append(mx.ones((3,)).sum().item())

    workers = [Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    work()
    assert sums == [3.0] * 4


def test_it_is_not_the_default_stream() -> None:
    default = mx.default_stream(mx.default_device())
    with mx.stream(generation_stream()):
        assert mx.default_stream(mx.default_device()) != default
