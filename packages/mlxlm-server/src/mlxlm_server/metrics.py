"""What Prometheus is told, and the log of each request that generates."""

from time import monotonic
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mlxlm_server import requestlog

if TYPE_CHECKING:
    from mlxlm_server.pool import Pool
    from mlxlm_server.running import Run

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counts of one server."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "mlxlm_requests", "Requests that have ended", ["model", "outcome"], registry=registry
        )
        self.prompt = Counter("mlxlm_prompt_tokens", "Tokens of prompts", registry=registry)
        self.cached = Counter(
            "mlxlm_cached_tokens", "Tokens of prompts that were not computed", registry=registry
        )
        self.generated = Counter("mlxlm_generated_tokens", "Tokens generated", registry=registry)
        self.first = Histogram(
            "mlxlm_first_token_seconds",
            "From arrival to the first token",
            registry=registry,
            buckets=_SECONDS,
        )
        self.under_way = Gauge(
            "mlxlm_under_way", "Answers that wait or run", ["model"], registry=registry
        )
        self.restarts = Gauge(
            "mlxlm_engine_restarts", "Engine threads replaced", ["model"], registry=registry
        )
        self.stalls = Gauge(
            "mlxlm_engine_stalls", "Engines given up as stalled", ["model"], registry=registry
        )
        self.hung = Gauge(
            "mlxlm_engine_hung_threads",
            "Threads given up as stalled that have not ended",
            ["model"],
            registry=registry,
        )

    def ended(self, run: "Run", outcome: str) -> None:
        """Count a request that has ended, and log it."""
        timing, tokens = run.timing, run.completion_tokens
        self.requests.labels(run.loaded.name, outcome.partition(",")[0]).inc()
        self.prompt.inc(run.prompt_tokens)
        self.cached.inc(run.cached)
        self.generated.inc(tokens)
        end = timing.ended or timing.arrived
        first = None if timing.first is None else timing.first - timing.arrived
        if first is not None:
            self.first.observe(first)
        prefill = None
        if timing.started is not None and timing.first is not None:
            prefill = round(timing.first - timing.started, 4)
        fields = {
            "request_id": run.id,
            "path": requestlog.path(),
            "model": run.loaded.name,
            "queue_s": round((timing.started or end) - timing.arrived, 4),
            "prompt_tokens": run.prompt_tokens,
            "cached_tokens": run.cached,
            "prefill_s": prefill,
            "first_token_s": None if first is None else round(first, 4),
            "generated_tokens": tokens,
            "tokens_per_s": round(_rate(tokens, timing.first, end), 2),
            "seconds": round(end - timing.arrived, 4),
            "outcome": outcome,
        }
        requestlog.write(fields)

    def embedded(self, model: str, request_id: str, texts: int, tokens: int) -> None:
        """Count a request for embeddings that was answered, and log it."""
        self.requests.labels(model, "embedded").inc()
        self.prompt.inc(tokens)
        fields = {
            "request_id": request_id,
            "path": requestlog.path(),
            "model": model,
            "texts": texts,
            "prompt_tokens": tokens,
            "seconds": round(monotonic() - requestlog.arrival(), 4),
            "outcome": "embedded",
        }
        requestlog.generates()
        requestlog.write(fields)

    def page(self, pool: "Pool") -> bytes:
        """Return everything in Prometheus' text format."""
        for loaded in pool.loaded:
            engine = loaded.engine
            self.under_way.labels(loaded.name).set(engine.under_way)
            self.restarts.labels(loaded.name).set(engine.counts.restarts)
            self.stalls.labels(loaded.name).set(engine.counts.stalls)
            self.hung.labels(loaded.name).set(engine.hung_threads)
        return generate_latest(self.registry)


def _rate(tokens: int, first: float | None, end: float) -> float:
    if first is None or tokens < 2 or end <= first:
        return 0.0
    return (tokens - 1) / (end - first)
