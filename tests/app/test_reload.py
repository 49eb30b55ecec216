"""What a reload gives to whom; no request is sent before it has answered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodemanager.actors.messages import ApplySettings, TakeCloud, TakeUserData, TakeWishlist
from nodemanager.app import adapters
from nodemanager.app.reload import Reloader
from nodemanager.config import Config, load
from nodemanager.core.model.world import Record, Size
from nodemanager.errors import ConfigError
from nodemanager.lib import log
from nodemanager.lib.clock import SystemClock
from tests.fakes import FakeCloud, FakeStore, TickingClock

FILE = """\
[Cloud]
provider = ec2
[Cloud Credentials]
key = k
secret_file = secret
region = eu-central-1
[Cloud Create]
image_id = ami-1
ping_host = registry.example.org
[Arvados]
host = zzzzz.example.org
token_file = token
[Records]
provider = arvados
slots = 4
[Size m5.large]
cores = 2
ram = 8000
price = 0.1
"""


class Actor:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def tell(self, message: Any) -> None:
        self.told.append(message)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.told if isinstance(message, kind)]


class Team(SimpleNamespace):
    cloud_list: Actor
    record_list: Actor
    demand: Actor
    setups: tuple[Actor, ...]


class Reloading:
    """A running daemon's reloader, and the files that it reads."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = directory / "pool.cfg"
        self.path.write_text(FILE)
        (directory / "secret").write_text("one")
        (directory / "token").write_text("one")
        self.directory = directory
        self.built: list[Config] = []
        self.wrong: list[str] = []
        monkeypatch.setattr(adapters, "build_cloud", self.build_cloud)
        self.cloud = FakeCloud(TickingClock())
        self.team = Team(
            cloud_list=Actor(), record_list=Actor(), demand=Actor(), setups=(Actor(), Actor())
        )
        self.daemon = Actor()
        self.system: Any = SimpleNamespace(
            daemon=self.daemon,
            team=self.team,
            cloud=self.cloud,
            records=SimpleNamespace(store=FakeStore(TickingClock())),
            settings=SimpleNamespace(sizes=()),
        )
        config = load(self.path, accepts=adapters.accepted_keys)
        self.reloader = Reloader(config, log.get("test"), SystemClock())
        self.renewed: list[Config] = []
        self.reloader.renewals.append(self.renewed.append)

    def build_cloud(self, config: Config, clock: object) -> FakeCloud:
        if self.wrong:
            raise ConfigError(self.wrong)
        self.built.append(config)
        return FakeCloud(TickingClock())

    def reload(self) -> dict[str, Any]:
        return self.reloader.reload(self.system)


@pytest.fixture
def reloading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reloading:
    return Reloading(tmp_path, monkeypatch)


def test_a_rotated_secret_file_makes_a_cloud_whose_account_is_asked_for_first(
    reloading: Reloading,
) -> None:
    (reloading.directory / "secret").write_text("two")
    told = reloading.reload()
    assert told["changes"] == [
        {
            "option": "[Cloud Credentials] secret",
            "old": "***",
            "new": "***",
            "applied": True,
        }
    ]
    (config,) = reloading.built
    assert config.cloud_credentials["secret"] == "two"
    assert len(reloading.team.cloud_list.of(TakeCloud)) == 1
    assert not reloading.team.demand.of(TakeWishlist)
    assert sum(reloading.cloud.calls.values()) == 0
    reloading.reload()
    assert len(reloading.built) == 1


def test_a_changed_image_reaches_the_cloud_and_what_only_a_start_reads_does_not(
    reloading: Reloading,
) -> None:
    text = FILE.replace("ami-1", "ami-2").replace("registry.example", "other.example")
    reloading.path.write_text(text)
    told = reloading.reload()
    assert [(one["option"], one["applied"]) for one in told["changes"]] == [
        ("[Cloud Create] image_id", True),
        ("[Cloud Create] ping_host", False),
    ]
    (config,) = reloading.built
    assert config.cloud_create == {"image_id": "ami-2", "ping_host": "registry.example.org"}


def test_what_the_file_says_of_sizes_is_taken_over_and_what_the_cloud_would_have_to_tell_is_not(
    reloading: Reloading,
) -> None:
    """SD100: for the nodes that are made after it."""
    first = Size("m5.large", "m5.large", 2, 8000, price=0.1)
    reloading.system.settings.sizes = (first,)
    more = "[Size spot]\ninstance_type = m5.large\ncores = 2\nram = 8000\nprice = 0.03\n"
    more += "preemptible = yes\n[Size c5.large]\ncores = 2\n"
    text = FILE.replace("price = 0.1\n", "price = 0.2\nplaces = eu-central-1b\nscratch = 9000\n")
    reloading.path.write_text(text + more)
    told = {one["option"]: one["applied"] for one in reloading.reload()["changes"]}
    assert told["[Size m5.large] price"]
    assert told["[Size m5.large] scratch"]
    assert told["[Size spot] preemptible"]
    assert not told["[Size c5.large] cores"], "its memory and price are the cloud's to tell"
    (applied,) = reloading.daemon.of(ApplySettings)
    changed = replace(first, price=0.2, scratch_mb=9000, places=("eu-central-1b",))
    spot = Size("spot", "m5.large", 2, 8000, price=0.03, preemptible=True)
    assert [replace(size, ram_is_given=False) for size in applied.settings.sizes] == [changed, spot]
    reloading.path.write_text(FILE.replace("price = 0.1\n", ""))
    told = {one["option"]: one["applied"] for one in reloading.reload()["changes"]}
    assert not told["[Size m5.large] price"], "what the cloud says is not known any more"


def test_the_template_of_user_data_is_read_again_and_a_wrong_one_changes_nothing(
    reloading: Reloading,
) -> None:
    template = reloading.directory / "user-data"
    template.write_text("one {ping_url}")
    text = FILE.replace("[Arvados]", f"user_data = {template}\n[Arvados]")
    reloading.path.write_text(text)
    assert reloading.reload()["done"]
    template.write_text("two {ping_url}")
    assert reloading.reload()["done"]
    record = Record("zzzzz-7ekkf-000000000000001", "1")
    for worker in reloading.team.setups:
        said = [one.user_data(record, "URL") for one in worker.of(TakeUserData)]
        assert said == ["one URL", "two URL"]
    template.write_text("nothing to ping")
    told = reloading.reload()
    assert not told["done"]
    assert "has no {ping_url}" in told["problems"][0]
    assert len(reloading.team.setups[0].of(TakeUserData)) == 2


def test_a_rotated_token_reaches_the_store_the_demand_and_no_new_cloud(
    reloading: Reloading,
) -> None:
    (reloading.directory / "token").write_text("two")
    assert reloading.reload()["done"]
    (config,) = reloading.renewed
    assert config.arvados.token is not None
    assert config.arvados.token.reveal() == "two"
    assert len(reloading.team.demand.of(TakeWishlist)) == 1
    assert not reloading.built


def test_credentials_that_no_cloud_can_be_made_of_change_nothing(reloading: Reloading) -> None:
    reloading.wrong = ["pool.cfg:4: [Cloud Credentials] key: is no key"]
    reloading.path.write_text(FILE.replace("key = k", "key = l").replace("slots = 4", "slots = 5"))
    told = reloading.reload()
    assert (told["done"], told["problems"]) == (False, reloading.wrong)
    assert not reloading.daemon.of(ApplySettings)
    assert not reloading.renewed
    reloading.wrong = []
    assert reloading.reload()["done"]
    assert reloading.team.cloud_list.of(TakeCloud)
