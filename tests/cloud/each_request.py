"""Makes each request of an operation meet each fault, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.errors import CloudError
from tests.cloud.world import World
from tests.live.proxy import Fate

T = TypeVar("T")

PATIENT_S = 30.0
MOST_REQUESTS = 60


@dataclass
class Nth:
    """That fate for one request, the others are carried; `met` says whether there was one."""

    fate: Fate
    number: int
    met: bool = False

    def __call__(self, kind: str) -> Fate:
        self.number -= 1
        if self.number != -1:
            return Fate.CARRIED
        self.met = True
        return self.fate


def each_request(
    world: World,
    work: Callable[[CloudDriver], T],
    before: Callable[[CloudDriver], object] = lambda driver: None,
    least: int = 1,
) -> Iterator[tuple[str, T | CloudError]]:
    """What comes of `work` on a new adapter when one of its requests meets a fate: each request in
    turn, and each fate. What it does `before` meets none. It sends `least` requests or more."""
    for fate in world.fates:
        for number in range(MOST_REQUESTS):
            nth = Nth(fate, number)
            with closing(world.open(PATIENT_S)) as driver:
                before(driver)
                try:
                    with world.meeting(nth):
                        came: T | CloudError = work(driver)
                except CloudError as error:
                    came = error
            yield f"{fate.name} at request {number}: {came!r}", came
            if not nth.met:
                # It has no such request, and what came is what comes in fair weather.
                assert number >= least
                break
        else:
            pytest.fail(f"more than {MOST_REQUESTS} requests")
