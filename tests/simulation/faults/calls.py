"""Calls that fail, hang, are slow, or take effect and are answered by an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nodemanager.errors import RemoteError, StoreError, StoreRefused, Throttled
from tests.simulation.faults.script import Effect, Scene
from tests.simulation.weather import Fate, Sometimes


def spell(
    methods: str,
    fate: Callable[[Scene], Callable[[], Fate]],
    often: tuple[float, float] = (0.3, 1.0),
) -> Effect:
    """Calls of these methods meet that fate, some of them, while it lasts."""

    def effect(scene: Scene) -> None:
        low, high = often
        chance = low + scene.random.random() * (high - low)
        cast = Sometimes(scene.random, frozenset(methods.split()), chance, fate(scene))
        scene.world.weather.spells.append(cast)
        scene.finally_(lambda: scene.world.weather.spells.remove(cast))

    return effect


def raises(*errors: Callable[[], RemoteError], effect: bool = False) -> Callable[..., Any]:
    """The call is answered by one of these errors, with or without its effect."""

    def fate(scene: Scene) -> Callable[[], Fate]:
        return lambda: Fate(effect=effect, error=scene.random.choice(errors))

    return fate


def slow(low: float, high: float, *, effect: bool = True) -> Callable[..., Any]:
    """It takes that long to get there: the caller may have given up by then."""

    def fate(scene: Scene) -> Callable[[], Fate]:
        return lambda: Fate(effect=effect, there=low + scene.random.random() * (high - low))

    return fate


def twice(scene: Scene) -> Callable[[], Fate]:
    """Something on its way sends it again, and hands on only the second answer."""
    return lambda: Fate(again=0.05 + scene.random.random() * 8.0)


def lost_reply(scene: Scene) -> Callable[[], Fate]:
    return lambda: Fate(back=1e6)


def throttled() -> Throttled:
    return Throttled("429", retry_after=30.0)


def store_429() -> StoreError:
    return StoreRefused("429", retry_after=20.0)


def error_503() -> StoreError:
    return StoreError("503")


def error_500() -> StoreError:
    return StoreError("500")


CLOUD_QUESTIONS = "cloud.find cloud.ask"
STORE_WRITES = "store.create store.claim store.clean store.update store.delete store.restore"
