"""The settings that a replay tries: single values, or values over a range."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nodemanager.config import deciding
from nodemanager.config.deciding import Variation, varied
from nodemanager.config.options import Option
from nodemanager.core.model.settings import Settings
from nodemanager.core.replay.rounded import ROUND_S, duration
from nodemanager.errors import ConfigError
from nodemanager.lib.near import did_you_mean


@dataclass(frozen=True)
class Tried:
    """One set of other settings. `value` is that of the option that varies, None where several
    options do."""

    label: str
    variation: Variation
    value: float | None = None


@dataclass(frozen=True)
class Sweep:
    """One option over a range; `recorded` is its recorded value."""

    option: Option
    recorded: float


def one_by_one(
    settings: Settings, windows: Sequence[str], given: Sequence[str], poll_s: float | None
) -> list[Tried]:
    """The settings of `given`, once for each of the `windows` if there are any.

    Raises ConfigError with every problem.
    """
    if not windows and not given:
        return []
    tried = []
    for window in windows or (None,):
        texts = list(given) if window is None else [f"Daemon.node_stale_after={window}", *given]
        source = "--set" if window is None else "--node-stale-after/--set"
        variation = varied(settings, texts, poll_s=poll_s, source=source)
        if window is not None and not given:
            value = variation.changes.get("node_stale_after", settings.node_stale_after)
            tried.append(Tried(duration(value), variation, value))
        else:
            tried.append(Tried(" ".join(_short(text) for text in texts), variation))
    return tried


def _short(text: str) -> str:
    name, _, value = text.partition("=")
    return f"{name.strip().rpartition('.')[2]}={value.strip()}"


def over_range(
    settings: Settings, text: str, given: Sequence[str], steps: int, poll_s: float | None
) -> tuple[Sweep, list[Tried]]:
    """The settings for `OPTION=A..B` in `steps` values, including both ends and the recorded value.

    Raises ConfigError with every problem.
    """
    name, separator, span = text.partition("=")
    low_text, dots, high_text = span.partition("..")
    if not separator or not dots or not low_text.strip() or not high_text.strip():
        raise ConfigError([f"--sweep {text}: write OPTION=A..B, like node_stale_after=5m..4h"])
    option = _swept(settings, text, name.strip())
    kind = option.kind
    ends = []
    problems = []
    for end in (low_text.strip(), high_text.strip()):
        try:
            ends.append(kind.parse(end))
        except ValueError as error:
            problems.append(f"--sweep: [{option.section}] {option.name} = {end}: {error}")
    if problems:
        raise ConfigError(problems)
    low, high = ends
    if not low < high:
        raise ConfigError([f"--sweep {text}: the range must begin with its lower end"])
    recorded = getattr(settings, option.field)
    values = spread(low, high, steps, of=type(recorded), duration=is_duration(option))
    if recorded is not None and low < recorded < high:
        values = sorted({*values, recorded})
    tried = []
    for value in values:
        texts = [f"{option.section}.{option.name}={kind.show(value)}", *given]
        variation = varied(settings, texts, poll_s=poll_s, source="--sweep/--set")
        tried.append(Tried(shown(option, value), variation, float(value)))
    return Sweep(option, float(recorded)), tried


def _swept(settings: Settings, text: str, name: str) -> Option:
    option = deciding.find(name)
    numbers = [one for one in deciding.VARIABLE if _is_number(getattr(settings, one.field))]
    if option in numbers:
        return option
    known = [one.name for one in numbers]
    hint = did_you_mean(name.rpartition(".")[2], known) if option is None else ""
    hint = hint or f"; there are {', '.join(known)}"
    raise ConfigError([f"--sweep {text}: a replay can't vary such an option over a range{hint}"])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_duration(option: Option) -> bool:
    return "duration" in option.kind.doc


def spread(low: float, high: float, steps: int, *, of: type, duration: bool) -> list[Any]:
    """Rounded values from `low` to `high` that grow by a constant factor.

    Where the range begins at 0 they grow by a constant amount.
    """
    if steps < 2:
        return [low, high]
    exact = [
        low + (high - low) * at / (steps - 1)
        if low <= 0
        else low * (high / low) ** (at / (steps - 1))
        for at in range(1, steps - 1)
    ]
    rounded: list[float]
    if of is int:
        rounded = [round(value) for value in exact]
    elif duration:
        rounded = [
            min(ROUND_S, key=lambda near: abs(math.log(near / value)), default=value)
            if value > 0
            else value
            for value in exact
        ]
    else:
        rounded = [float(f"{value:.3g}") for value in exact]
    within = {value for value in rounded if low < value < high}
    return sorted({low, high, *within})


def shown(option: Option, value: float) -> str:
    """A value as in a file, a duration in the largest unit that gives a whole number."""
    if not is_duration(option):
        return option.kind.show(option.deciding.to_option(value))
    return duration(value)
