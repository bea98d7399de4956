from typing import Any

import httpx


def test_everything_but_health_needs_the_key(serve: Any) -> None:
    live = serve(api_keys=("right",))
    for path in ("/ready", "/metrics", "/v1/models", "/openapi.json"):
        assert httpx.get(live.url + path).status_code == 401
        assert live.http.get(path).status_code == 200
    wrong = httpx.get(f"{live.url}/v1/models", headers={"Authorization": "Bearer righ"})
    assert wrong.status_code == 401
    assert httpx.get(f"{live.url}/health").status_code == 200


def test_a_body_over_the_limit_is_status_413(serve: Any) -> None:
    live = serve(max_body_bytes=100)
    for content in (b"x" * 101, iter([b"x" * 60, b"x" * 60])):
        response = live.http.post("/v1/completions", content=content)
        assert response.status_code == 413
        assert "100 bytes" in response.json()["error"]["message"]


def test_long_prompts_and_unknown_models_and_fields_are_refused(serve: Any) -> None:
    live = serve(max_prompt_tokens=3, strict=True)
    for extra, status, said in (
        ({"prompt": [1, 2, 3, 4]}, 400, "is 3"),
        ({"model": "../../etc"}, 404, "smol"),
        ({"oddity": 1}, 400, "oddity"),
    ):
        response = live.http.post("/v1/completions", json={"prompt": "a", **extra})
        assert response.status_code == status
        assert said in response.json()["error"]["message"]


def test_other_origins_are_not_let_in_unless_named(serve: Any, live: Any) -> None:
    origin = {"Origin": "http://a.example"}
    allowed = "access-control-allow-origin"
    assert allowed not in live.http.get("/health", headers=origin).headers
    open_to = serve(allowed_origins=("http://a.example",))
    assert open_to.http.get("/health", headers=origin).headers[allowed] == "http://a.example"


def test_pages_of_other_origins_are_refused_whatever_they_ask(serve_tiny: Any) -> None:
    live = serve_tiny()
    body = {"prompt": "a", "max_tokens": 1}
    refused = live.http.post("/v1/completions", json=body, headers={"Origin": "http://a.example"})
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "origin_not_allowed"
    own = live.http.post("/v1/completions", json=body, headers={"Origin": live.url})
    assert own.status_code == 200
    everyone = serve_tiny(allowed_origins=("*",))
    allowed = everyone.http.get("/health", headers={"Origin": "http://a.example"})
    assert allowed.headers["access-control-allow-origin"] == "*"


def test_a_name_that_is_not_this_servers_is_refused(serve_tiny: Any) -> None:
    live = serve_tiny(allowed_hosts=("127.0.0.1", "::1", "models.example"))
    for host, status in (
        ("models.example", 200),
        ("Models.Example:8080", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
    ):
        assert live.http.get("/health", headers={"Host": host}).status_code == status
