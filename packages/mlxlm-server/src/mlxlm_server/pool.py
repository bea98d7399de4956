"""Which models there are, and those that are loaded."""

import asyncio
import gc
import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlxlm_cache import make_prompt_cache
from mlxlm_generate import BatchGenerator

from mlxlm_server.engine.engine import Engine
from mlxlm_server.errors import ApiError, unavailable
from mlxlm_server.fingerprint import fingerprint
from mlxlm_server.settings import ServerSettings
from mlxlm_server.structured.compiled import Grammars

log = logging.getLogger(__name__)

DEFAULT = "default_model"
"""The name by which a request asks for whatever is served first."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


@dataclass(eq=False)
class Loaded:
    """A model that is ready. `texts` is the one thread that renders and tokenizes prompts."""

    name: str
    tokenizer: Any
    engine: Engine
    cuttable: bool
    """Any beginning of a cached prompt can be reused: nothing recurrent, no window."""
    created: int = field(default_factory=lambda: int(time.time()))
    used: float = field(default_factory=time.monotonic)
    texts: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "prompts"))
    holders: set[Any] = field(default_factory=set)
    """Tasks that use it: those of requests, from their beginning to their end."""
    grammars: Grammars = field(init=False)
    """What answers of a given form are made from."""

    def __post_init__(self) -> None:
        self.grammars = Grammars(self.tokenizer)

    def hold(self) -> None:
        """Keep it loaded while the current task runs."""
        self.used = time.monotonic()
        task = asyncio.current_task()
        if task is not None and task not in self.holders:
            self.holders.add(task)
            task.add_done_callback(self.holders.discard)


Load = Callable[[str, str | None], tuple[Any, Any]]
"""From a model and the path of an adapter to a model and its tokenizer."""


class Pool:
    """Loads models when they are first asked for; the one unused for longest makes room."""

    def __init__(
        self,
        settings: ServerSettings,
        load: Load | None = None,
        make_generator: Callable[..., BatchGenerator] = BatchGenerator,
    ) -> None:
        self._settings = settings
        self._load = load or loader(settings)
        self._make_generator = make_generator
        self._loaded: dict[str, Loaded] = {}
        self._draft: tuple[Any, Any] | None = None
        self._lock = asyncio.Lock()
        # Not the loop's own threads: its end would wait for a model that is being loaded.
        self._loading = ThreadPoolExecutor(1, "load")

    @property
    def names(self) -> list[str]:
        """Names that requests may ask for; those loaded on request are among them once loaded."""
        settings = self._settings
        return list(dict.fromkeys([*settings.models, *settings.adapters, *self._loaded]))

    @property
    def loaded(self) -> list[Loaded]:
        return list(self._loaded.values())

    @property
    def ready(self) -> bool:
        """Whether a request would be served: every engine runs, and one at least if configured."""
        engines = [loaded.engine for loaded in self._loaded.values()]
        return all(e.ready.is_set() for e in engines) and bool(engines or not self._settings.models)

    @property
    def healthy(self) -> bool:
        """False while an engine that has failed is not back."""
        return all(loaded.engine.healthy for loaded in self._loaded.values())

    async def get(self, name: str | None) -> Loaded:
        """Return a model that is ready, and stays loaded until the task that asks has ended.

        ApiError 404 for a name that isn't served, 429 where all that fit are in use.
        """
        name = self._known(name)
        if name not in self._loaded:
            async with self._lock:
                if name not in self._loaded:
                    await self._make_room()
                    self._loaded[name] = await self._start(name)
        loaded = self._loaded[name]
        loaded.hold()
        return loaded

    def _known(self, name: str | None) -> str:
        settings = self._settings
        if name is None or name == DEFAULT:
            if not settings.models:
                raise ApiError(404, "This server has no default model: name one.", param="model")
            return settings.models[0]
        if name in self.names:
            return name
        for known, source in settings.sources.items():
            if name == source:
                return known
        # A directory of that name, here where the server runs, is none of a client's business.
        if not settings.models and _REPOSITORY.fullmatch(name) and not Path(name).exists():
            return name
        served = ", ".join(self.names) or "Hugging Face repositories, as org/name"
        raise ApiError(
            404,
            f"There is no model {name[:200]!r} here. Served: {served}.",
            code="model_not_found",
            param="model",
        )

    async def _start(self, name: str) -> Loaded:
        begun = time.monotonic()
        settings = self._settings
        adapter = settings.adapters.get(name)
        base = name if adapter is None else settings.models[0]
        if adapter is None and settings.models and name == settings.models[0]:
            adapter = settings.adapter_path
        try:
            model, tokenizer, draft, identity = await asyncio.get_running_loop().run_in_executor(
                self._loading, self._read, base, adapter
            )
            engine = Engine(
                model,
                identity,
                settings,
                stop_tokens=[[token] for token in sorted(tokenizer.eos_token_ids)],
                make_generator=self._make_generator,
                draft=draft,
            )
            await engine.start()
        except Exception as error:
            if settings.models:
                raise unavailable(f"The model {name!r} can't be loaded.", "load_failed") from error
            raise ApiError(
                404, f"The model {name!r} can't be loaded.", code="model_not_found", param="model"
            ) from error
        cuttable = not any(
            leaf.capabilities.checkpoint or not leaf.is_trimmable()
            for layer in make_prompt_cache(model)
            for leaf in layer.leaves()
        )
        log.info("%s is ready after %.1f s", name, time.monotonic() - begun)
        return Loaded(name, tokenizer, engine, cuttable)

    def _read(self, name: str, adapter: str | None) -> tuple[Any, Any, Any, Any]:
        """Return model, tokenizer, draft, and what tells the model's prefixes from others'."""
        settings = self._settings
        model, tokenizer = self._load(settings.sources.get(name, name), adapter)
        draft = self._read_draft(tokenizer)
        cache = (settings.max_kv_size, settings.kv_bits, settings.kv_group_size)
        weights = None if settings.disk_cache is None else fingerprint(model)
        identity = (name, adapter, *cache, settings.quantized_kv_start, weights)
        return model, tokenizer, draft, identity

    def _read_draft(self, tokenizer: Any) -> Any:
        if self._settings.draft_model is None:
            return None
        from mlxlm_generate import check_draft_tokenizer

        if self._draft is None:
            self._draft = self._load(self._settings.draft_model, None)
        draft, draft_tokenizer = self._draft
        check_draft_tokenizer(tokenizer, draft_tokenizer)
        return draft

    async def _make_room(self) -> None:
        while len(self._loaded) >= self._settings.max_models:
            idle = [x for x in self._loaded.values() if not (x.holders or x.engine.under_way)]
            if not idle:
                raise ApiError(
                    429,
                    "All models that fit are busy; try again shortly.",
                    code="models_busy",
                    headers={"Retry-After": "5"},
                )
            await self._unload(min(idle, key=lambda loaded: loaded.used))

    async def _unload(self, loaded: Loaded) -> None:
        del self._loaded[loaded.name]
        await loaded.engine.stop()
        loaded.texts.shutdown(wait=False)
        loaded.grammars.close()
        del loaded
        await asyncio.to_thread(_give_back)

    async def close(self) -> None:
        self._loading.shutdown(wait=False, cancel_futures=True)
        for loaded in self.loaded:
            await self._unload(loaded)


def _give_back() -> None:
    """Have the memory of what was unloaded back before anything else is loaded."""
    gc.collect()
    mx.clear_cache()


def loader(settings: ServerSettings) -> Load:
    """Return what loads models as the settings say."""

    def load(name: str, adapter: str | None) -> tuple[Any, Any]:
        from mlxlm_models import load as load_model
        from mlxlm_models import use_default_chat_template

        config = {}
        if settings.chat_template is not None:
            config["chat_template"] = settings.chat_template
        model, tokenizer = load_model(
            name,
            config,
            adapter_path=None if adapter is None else Path(adapter),
            trust_remote_code=settings.trust_remote_code,
            cpu_weights=settings.cpu_weights,
        )
        if settings.use_default_chat_template:
            use_default_chat_template(tokenizer)
        return model, tokenizer

    return load
