"""Each path of the management API needs a token, whatever is added to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from falcon import inspect, testing
from mock import Mock

from tests.web.manager import READ_TOKEN, Manager


def app(commands: Mock) -> Any:
    return Manager(read_token=READ_TOKEN, commands=commands, reload=Mock()).server.app


def api() -> list[tuple[str, str]]:
    """Every method and path of the API, with an id where it takes one."""
    return [
        (method.method, re.sub(r"{.*}", "i-1", route.path))
        for route in inspect.inspect_routes(app(Mock()))
        for method in route.methods
        if route.path.startswith("/api/") and not method.internal
    ]


@pytest.mark.parametrize(("method", "path"), api())
def test_nobody_without_a_token_is_answered(method: str, path: str) -> None:
    commands = Mock()
    client = testing.TestClient(app(commands))

    def status(**headers: str) -> int:
        answer = client.simulate_request(method, path, host="localhost", headers=headers, json={})
        return answer.status_code

    assert status() == 401
    assert status(Authorization="Bearer wrong") == 403
    if method == "POST":
        assert status(Authorization=f"Bearer {READ_TOKEN}") == 403
    assert not commands.mock_calls


def test_there_are_such_paths() -> None:
    assert {"/api/nodes", "/api/verify", "/api/backlog/apply", "/api/power/resume"} <= {
        path for _, path in api()
    }
