import json
import logging
import re
import warnings
from collections.abc import Iterator

import pytest
from mlxlm_cli.logs import set_up


@pytest.fixture(autouse=True)
def _keep_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, formatter = (root.handlers[:], root.level), warnings.formatwarning
    with warnings.catch_warnings():
        yield
    root.handlers[:], root.level = before
    warnings.formatwarning = formatter
    logging.captureWarnings(False)


def test_notices_of_ours_and_warnings_of_others_go_to_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up("INFO")
    logging.getLogger("mlxlm_cli.x").info("loaded")
    logging.getLogger("mlxlm_cli.x").warning("slow")
    logging.getLogger("httpx").info("GET /")
    logging.getLogger("httpx").warning("retry")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["loaded", "warning: slow", "warning: retry"]


def test_a_python_warning_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("INFO")
    warnings.simplefilter("always")
    warnings.warn("top_k has no effect", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "warning: top_k has no effect\n"


def test_error_silences_warnings_and_debug_shows_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up("ERROR")
    logging.getLogger("mlxlm_models").warning("hidden")
    assert capsys.readouterr().err == ""
    set_up("DEBUG")
    logging.getLogger("httpx").debug("GET /")
    assert capsys.readouterr().err == "GET /\n"


def test_what_runs_for_days_says_when(capsys: pytest.CaptureFixture[str]) -> None:
    set_up("INFO", "text")
    logging.getLogger("mlxlm_server").warning("slow")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z warning: slow\n", capsys.readouterr().err)


def test_json_is_an_object_a_line_with_fields_and_tracebacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up("INFO", "json")
    log = logging.getLogger("mlxlm_server")
    log.info("%s", "a=1", extra={"fields": {"a": 1}})
    try:
        raise ValueError("no\nmodel")
    except ValueError:
        log.exception("it failed: %s", "é")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert (first["a"], first["level"], first["logger"]) == (1, "info", "mlxlm_server")
    assert (second["message"], second["level"]) == ("it failed: é", "error")
    assert "ValueError: no\nmodel" in second["exception"]
