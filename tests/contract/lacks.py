"""What a cloud lacks of what the contract suite asks, and why: the suite and doc/contract.rst read
it here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, TypeVar

import pytest

from nodemanager.core.model.world import CloudState

F = TypeVar("F", bound=Callable[..., None])


class Ability(StrEnum):
    """What not every cloud has, beside some of the states."""

    CLIENT_TOKENS = "client tokens"
    CONFIRMED_ENDS = "confirmed ends"
    IMAGE_IDS = "ids of images"
    IMAGES = "images"
    LEFTOVERS = "leftovers"
    NEWER_IMAGES = "newer images"
    OTHER_ACCOUNTS = "other accounts"
    SERVER = "a server"
    SLOW_ENDS = "ends that take their time"
    THROTTLES = "throttles"


Need = Ability | CloudState

_FORGETS = "it does not know a deleted node any more, and lists none"
_LOOKED_FOR = "a create whose answer was lost is looked for by its record, and not repeated"
_NO_IMAGE = "its nodes boot from no image"
_NO_IMAGES: Mapping[Need, str] = {
    Ability.IMAGES: _NO_IMAGE,
    Ability.IMAGE_IDS: _NO_IMAGE,
    Ability.NEWER_IMAGES: _NO_IMAGE,
}

LACKS: Mapping[str, Mapping[Need, str]] = {
    "local": {
        CloudState.STOPPED: "a process runs or has ended",
        CloudState.UNKNOWN: "its states are our own",
        Ability.IMAGES: "an image of its nodes is a name, and stands for nothing",
        Ability.LEFTOVERS: "a process leaves nothing behind",
        Ability.SERVER: "no server is in between: its calls are files of this machine",
    },
    "dummy": {
        **_NO_IMAGES,
        Ability.LEFTOVERS: "its nodes are in memory, and leave nothing behind",
        Ability.SERVER: "no server is in between: its calls are of this process",
    },
    "ec2": {
        CloudState.UNKNOWN: "its six states are all known to us",
        Ability.IMAGES: "we believe only Amazon's own answer about images; the test's EC2 server "
        "boots from images that it does not list",
        Ability.NEWER_IMAGES: "the id of an AMI is no name that another one could get",
        Ability.OTHER_ACCOUNTS: "keys of the file lead to one account; tests/cloud/ec2/"
        "test_credentials.py shows it for keys that are found anew",
    },
    "gce": {
        CloudState.TERMINATED: _FORGETS,
        Ability.CONFIRMED_ENDS: _FORGETS,
        Ability.OTHER_ACCOUNTS: "each request names the project",
    },
    "azure": {
        CloudState.TERMINATED: _FORGETS,
        Ability.CONFIRMED_ENDS: _FORGETS,
        Ability.OTHER_ACCOUNTS: "each request names the subscription",
    },
    "openstack": {
        CloudState.TERMINATED: _FORGETS,
        Ability.CONFIRMED_ENDS: _FORGETS,
        Ability.CLIENT_TOKENS: f"nova has none; {_LOOKED_FOR}",
    },
    "libvirt": {
        CloudState.PENDING: "libvirt's test driver starts a domain at once",
        CloudState.STOPPING: "libvirt's test driver ends a domain at once",
        CloudState.TERMINATED: _FORGETS,
        CloudState.UNKNOWN: "libvirt's test driver always knows the state",
        Ability.SLOW_ENDS: "libvirt answers a destroy once the domain has ended",
        Ability.THROTTLES: "libvirt has no word for it",
    },
    "fake": _NO_IMAGES,
    "simulated": {
        Ability.CONFIRMED_ENDS: "a node ends with the simulated time, which stands still here",
        **_NO_IMAGES,
        Ability.LEFTOVERS: "the simulation has worlds for them",
    },
}
"""By cloud. A cloud that is not named here has everything."""
LACKS_IN_ITS_OWN_RUN: Mapping[str, Mapping[Need, str]] = {
    "real-openstack": {
        **LACKS["openstack"],
        Ability.NEWER_IMAGES: "nobody gives its image's name to another one meanwhile",
        CloudState.PENDING: "a server does not wait in it for a test",
        CloudState.UNKNOWN: "no hand brings a server into a state that we don't know",
    },
}
"""Of a cloud that is not in doc/contract.rst, since `make test` does not run on it."""


def why_not(cloud: str, need: Need | None) -> str | None:
    """Why that cloud does not have it; None where it does."""
    return {**LACKS, **LACKS_IN_ITS_OWN_RUN}.get(cloud, {}).get(need) if need is not None else None


class Chooser:
    """Says on which of the clouds a test runs. `case` gives pytest's parameter for one of them."""

    def __init__(self, clouds: Iterable[str], case: Callable[..., Any]) -> None:
        self.all = tuple(clouds)
        self._case = case

    def needs(self, need: Need) -> Callable[[F], F]:
        """On those that have it; doc/contract.rst says why not on the others."""
        having = [one for one in self.all if why_not(one, need) is None]

        def chosen(test: F) -> F:
            return pytest.mark.needs(need)(self._on(having)(test))

        return chosen

    def needs_each(self, *needs: Need) -> Callable[[F], F]:
        """Once for each of them, as the test's `need`, on the clouds that have it."""
        having = [
            self._case(one, need, id=f"{one}-{need}")
            for one in self.all
            for need in needs
            if why_not(one, need) is None
        ]

        def chosen(test: F) -> F:
            on = pytest.mark.parametrize(("cloud", "need"), having, indirect=["cloud"])
            return pytest.mark.needs(*needs)(on(test))

        return chosen

    def lacks(self, need: Need) -> Callable[[F], F]:
        """On the others: it holds the reason to what they do."""
        lacking = [one for one in self.all if why_not(one, need) is not None]

        def chosen(test: F) -> F:
            return pytest.mark.lacks(need)(self._on(lacking)(test))

        return chosen

    def _on(self, clouds: Iterable[str]) -> Any:
        return pytest.mark.parametrize("cloud", [self._case(one) for one in clouds], indirect=True)
