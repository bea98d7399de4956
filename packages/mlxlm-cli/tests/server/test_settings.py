from dataclasses import fields, replace

from mlxlm_cli.server import build_parser
from mlxlm_cli.server.settings import settings_of
from mlxlm_sample import SamplingOptions
from mlxlm_server import ServerSettings

# What makes up a setting of another name, and what `execute` hands on itself.
PARTS = {"model", "adapter", "api_key"}
HANDED_ON = {"host", "port", "ssl_certfile", "ssl_keyfile", "shutdown_timeout", "pipeline"}
OF_THE_PROCESS = {"given", "log_level", "log_format", "config"}


def test_R56_without_flags_the_settings_are_their_defaults() -> None:
    usual = settings_of(build_parser().parse_args([]))
    assert replace(usual, sampling=SamplingOptions()) == ServerSettings()
    assert usual.sampling.given() == ()


def test_no_flag_is_dropped() -> None:
    names = {f.name for kind in (ServerSettings, SamplingOptions) for f in fields(kind)}
    assert set(vars(build_parser().parse_args([]))) <= names | PARTS | HANDED_ON | OF_THE_PROCESS


def test_no_setting_is_without_a_flag() -> None:
    made = {"models", "sources", "adapters", "api_keys", "sampling"}
    names = {f.name for f in fields(ServerSettings)}
    assert names - made <= set(vars(build_parser().parse_args([])))


def test_flags_that_make_up_a_setting() -> None:
    flags = ("--model", "org/a", "--model", "b=/x/y", "--adapter", "c=/z", "--temp", "0.5")
    more = ("--allowed-origins", "http://a.example/, https://b.example:1", "--memory-limit", "2GB")
    made = settings_of(build_parser().parse_args([*flags, *more]))
    assert made.models == ("org/a", "b")
    assert made.sources == {"b": "/x/y"}
    assert made.adapters == {"c": "/z"}
    assert made.sampling.temp == 0.5
    assert made.allowed_origins == ("http://a.example", "https://b.example:1")
    assert made.memory_limit == 2 * 10**9
