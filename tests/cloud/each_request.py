"""Makes each request of an operation meet each fault, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TypeVar

import pytest

from nodemanager.cloud.api import CloudDriver
from nodemanager.errors import CloudError
from tests.cloud.world import World
from tests.live.proxy import Fate

T = TypeVar("T")

PATIENT_S = 30.0
LIKE_ANSWERS = {Fate.REPLY_CUT, Fate.MISSING, Fate.EMPTY, Fate.ANOTHER_API}
"""What a careless reader could take for an answer with less in it."""
TRIES = 5
"""What a lost request does late may be done when the next one asks, which then sends fewer."""


@dataclass
class Nth:
    """That fate for one request, the others are carried; `sent` is how many there were."""

    fate: Fate
    number: int
    sent: int = 0

    def __call__(self, kind: str) -> Fate:
        self.sent += 1
        return self.fate if self.sent == self.number else Fate.CARRIED


def each_request(
    world: World,
    work: Callable[[CloudDriver], T],
    *,
    least: int = 1,
    anew: bool = False,
    stranger: bool = False,
    of_a_node: bool = True,
    only_asks: bool = False,
    only_answers: bool = False,
) -> Iterator[tuple[str, T | CloudError]]:
    """What comes of `work` when one of its requests meets a fate: each request in turn, and each
    fate; at last, what comes in fair weather. It sends `least` requests or more.

    One adapter does it all, as in a daemon, and is signed in; with `anew` each time another one
    does, whose sign-in meets the fates as well; a `stranger` is signed in and has seen nothing yet.
    Work that is not `of_a_node` is the same whatever was seen before. To `work` that `only_asks` a
    lost answer is the same as a lost request. With `only_answers` it meets those alone that look
    like an answer.
    """
    fates = [one for one in world.fates if not (only_asks and one is Fate.REPLY_LOST)]
    if only_answers:
        fates = [one for one in fates if one in LIKE_ANSWERS]

    @contextmanager
    def opened() -> Iterator[CloudDriver]:
        with closing(world.open(PATIENT_S)) as driver:
            if not anew:
                driver.account()
            yield driver

    with opened() as steady:

        def met_by(nth: Nth) -> T | CloudError:
            learns = world.reconnects or (world.learns and of_a_node)
            which = opened() if anew or stranger or learns else nullcontext(steady)
            with which as driver, world.meeting(nth):
                try:
                    return work(driver)
                except CloudError as error:
                    return error

        fair = Nth(Fate.CARRIED, 0)
        came = met_by(fair)
        yield f"in fair weather: {came!r}", came
        assert fair.sent >= least
        for fate in fates:
            for number in range(1, fair.sent + 1):
                for _ in range(TRIES):
                    nth = Nth(fate, number)
                    came = met_by(nth)
                    yield f"{fate.name} at request {number}: {came!r}", came
                    if nth.sent >= number:
                        break
                else:
                    pytest.fail(f"there was no request {number} to meet {fate.name}")
        # Each of its requests was tried.
        for _ in range(TRIES):
            last = Nth(Fate.CARRIED, 0)
            came = met_by(last)
            yield f"in fair weather: {came!r}", came
            if last.sent == fair.sent:
                return
        pytest.fail(f"it sends {last.sent} requests, and sent {fair.sent} at first")
