"""From flags to the settings of the server."""

from argparse import Namespace
from dataclasses import fields

from mlxlm_sample import SamplingOptions
from mlxlm_server import ServerSettings

from mlxlm_cli.errors import UsageError


def settings_of(args: Namespace) -> ServerSettings:
    """Return what the flags say; UsageError where they don't go together."""
    drawn = {f.name for f in fields(SamplingOptions)} & vars(args).keys()
    sampling = SamplingOptions(**{name: getattr(args, name) for name in drawn})
    models = args.model or []
    adapters = args.adapter or []
    same = {f.name for f in fields(ServerSettings)} & vars(args).keys()
    given = {name: getattr(args, name) for name in same}
    given |= {
        "models": tuple(model.name for model in models),
        "sources": {model.name: model.source for model in models if model.name != model.source},
        "adapters": dict(adapters),
        "api_keys": tuple(key for keys in args.api_key or () for key in keys),
        "allowed_origins": _origins(args.allowed_origins),
        "allowed_hosts": tuple(host.lower() for host in _listed(args.allowed_hosts)),
        "chat_template": args.chat_template or None,
        "sampling": sampling,
    }
    if len(given["adapters"]) < len(adapters):
        raise UsageError("--adapter: a name is there twice")
    try:
        return ServerSettings(**given)
    except ValueError as error:
        raise UsageError(str(error).rstrip(".")) from error


def _origins(text: str | None) -> tuple[str, ...]:
    origins = [origin.rstrip("/") for origin in _listed(text)]
    for origin in origins:
        if origin != "*" and "://" not in origin:
            raise UsageError(
                f"--allowed-origins: {origin!r} is no origin, which is as in https://example.com"
            )
    return tuple(origins)


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
