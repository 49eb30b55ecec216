"""What a command says when the daemon says no."""

from __future__ import annotations

import json

import pytest
import requests

from nodemanager.commands.client import Client, ClientError
from tests.cases import cases


@cases(
    ("body", "says"),
    {
        "in-the-daemons-own-words": (
            {"title": "no run", "description": "no plan has been applied yet"},
            "no run: no plan has been applied yet",
        ),
        "an-unknown-id": (
            {"title": "unknown", "description": "nothing goes by 'x'"},
            "nothing goes by 'x'",
        ),
    },
)
def test_a_refusal_begins_with_what_it_is_and_not_with_an_address(
    body: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """O13: the errors of `backlog status` began with a URL."""
    answer = requests.Response()
    answer.status_code = 404
    answer._content = json.dumps(body).encode()
    monkeypatch.setattr(Client, "_send", lambda self, *given, **more: answer)
    with pytest.raises(ClientError) as caught:
        Client.__new__(Client).get("backlog", "marks")
    assert str(caught.value) == says


def test_a_daemon_of_another_version_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade it runs on until its restart; `status` ended with a KeyError."""
    answer = requests.Response()
    answer.status_code = 200
    answer._content = b'{"polls": {"cloud": {"age_s": 1.0}}}'
    monkeypatch.setattr(Client, "_send", lambda self, *given, **more: answer)
    monkeypatch.setattr(
        requests.Response, "json", lambda self, hook: json.loads(self.content, object_hook=hook)
    )
    status = Client.__new__(Client).status()
    assert status["polls"]["cloud"]["age_s"] == 1.0
    with pytest.raises(ClientError, match="another version than this command"):
        status["polls"]["cloud"]["items"]
    with pytest.raises(ClientError, match="'nodes_unknown'"):
        status["nodes_unknown"]
