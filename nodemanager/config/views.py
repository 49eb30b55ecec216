"""A configuration as a table, compared with another, and reloaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from nodemanager.config.providers import traits_of
from nodemanager.config.reader import CREDENTIALS
from nodemanager.config.report import Place
from nodemanager.config.sections import SECTIONS, SIZE, SizeSection
from nodemanager.config.settings import Config
from nodemanager.config.values import NO_SECRETS
from nodemanager.lib.redact import MASK, is_secret

CREATE = "Cloud Create"
SPARE = "spare_nodes"
"""The one option of a size whose absence from the file means something."""
AT_START = ("ping_host",)
"""Keys of [Cloud Create] that only a start reads."""
UNSENT = (*AT_START, "user_data")
"""Keys of [Cloud Create] that the cloud's adapter does not get."""


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One effective setting. A secret `value` is masked; for `origin` see `Config.origin`."""

    section: str
    option: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Change:
    """One option that differs, with secrets masked; None where a side does not have it."""

    section: str
    option: str
    old: str | None
    new: str | None
    reloadable: bool


@dataclass(frozen=True, slots=True)
class _Setting:
    raw: Any
    shown: str
    reloadable: bool


def show(config: Config) -> list[EffectiveSetting]:
    """Every effective setting with its origin, section by section."""
    return [
        EffectiveSetting(section, option, setting.shown, config.origin(section, option))
        for (section, option), setting in _settings(config)
    ]


def diff(old: Config, new: Config) -> list[Change]:
    """The options that differ between `old` and `new`, and whether a reload applies them."""
    before, after = dict(_settings(old)), dict(_settings(new))
    changes = []
    for key in dict.fromkeys([*before, *after]):
        was, now = before.get(key), after.get(key)
        if was is not None and now is not None and was.raw == now.raw:
            continue
        known = now or was
        assert known is not None
        changes.append(
            Change(
                *key,
                old=None if was is None else was.shown,
                new=None if now is None else now.shown,
                reloadable=known.reloadable and _may_differ(old, new, key, now),
            )
        )
    return changes


def _may_differ(old: Config, new: Config, key: tuple[str, str], now: _Setting | None) -> bool:
    """Whether a reload takes that option of a size over; those of other sections it may.

    What the file says no more is the cloud's to tell, as is a new size that it does not describe
    whole; and a reload never waits for the cloud.
    """
    section, option = key
    name = section.removeprefix("Size ")
    if name == section:
        return True
    there = next((one for one in new.sizes if one.name == name), None)
    if there is None or (now is None and option != SPARE):
        return False
    return name in {one.name for one in old.sizes} or _is_taken_whole(old, there)


def _is_taken_whole(old: Config, size: SizeSection) -> bool:
    """Whether a size that is new in the file may be booted without asking the cloud for it."""
    return bool(old.sizes) and size.stands_alone


def reloaded(old: Config, new: Config) -> Config:
    """`old` with the options of `new` that a running daemon takes over: windows and limits."""
    sections: dict[str, Any] = {}
    places = dict(old.places)
    for section in SECTIONS:
        taken = {}
        for option in section.options:
            if option.reload:
                taken[option.attribute] = getattr(getattr(new, section.attribute), option.attribute)
                places[section.name, option.name] = new.places[section.name, option.name]
        sections[section.attribute] = replace(getattr(old, section.attribute), **taken)
    known = {size.name for size in old.sizes}
    added = [one for one in new.sizes if one.name not in known and _is_taken_whole(old, one)]
    sizes = (*(_reloaded_size(size, new, places) for size in old.sizes), *added)
    of_added = {f"Size {one.name}" for one in added}
    places |= {key: place for key, place in new.places.items() if key[0] in of_added}
    cloud: dict[str, Any] = {}
    if _is_read_again(old):
        kept = {key: old.cloud_create[key] for key in AT_START if key in old.cloud_create}
        given = {k: value for k, value in new.cloud_create.items() if k not in AT_START}
        cloud = {"cloud_credentials": new.cloud_credentials, "cloud_create": given | kept}
        fresh = {key for key in {*places, *new.places} if _is_taken(*key)}
        places = {key: place for key, place in places.items() if key not in fresh}
        places |= {key: new.places[key] for key in fresh if key in new.places}
    return replace(old, **sections, **cloud, sizes=sizes, places=places, warnings=new.warnings)


def _is_of_cloud(section: str, key: str) -> bool:
    """Whether a reload takes the key over by a new connection to the cloud."""
    return section == CREDENTIALS or (section == CREATE and key not in UNSENT)


def _is_taken(section: str, key: str) -> bool:
    """Whether a reload takes the key of the cloud's own sections over."""
    return _is_of_cloud(section, key) or (section == CREATE and key not in AT_START)


def _is_read_again(config: Config) -> bool:
    return not traits_of(config.cloud.provider).in_process


def changes_cloud(changes: Iterable[Change]) -> bool:
    """Whether the cloud must be connected anew for these changes."""
    return any(one.reloadable and _is_of_cloud(one.section, one.option) for one in changes)


def _reloaded_size(
    size: SizeSection, new: Config, places: dict[tuple[str, str], Place]
) -> SizeSection:
    """`size` with what a running daemon takes over of its new section, and that one's places."""
    found = next((one for one in new.sizes if one.name == size.name), None)
    for option in SIZE.options:
        key = f"Size {size.name}", option.name
        if not option.reload or found is None:
            continue
        value = getattr(found, option.attribute)
        if value is None and option.name != SPARE:
            continue
        size = replace(size, **{option.attribute: value})
        places.pop(key, None)
        if key in new.places:
            places[key] = new.places[key]
    return size


def _settings(config: Config) -> Iterator[tuple[tuple[str, str], _Setting]]:
    for section in SECTIONS:
        values = getattr(config, section.attribute)
        for option in section.options:
            value = getattr(values, option.attribute)
            yield (
                (section.name, option.name),
                _Setting(value, option.kind.show(value), option.reload),
            )
        if section.name == "Logging":
            for name, level in config.log_levels.items():
                yield (section.name, name), _Setting(level, level, False)
    credentials, again = config.cloud_credentials, _is_read_again(config)
    for key, value in credentials.items():
        shown = value if key in NO_SECRETS else MASK
        yield (CREDENTIALS, key), _Setting((value, credentials.contents.get(key)), shown, again)
    for title, keys in (("Cloud List", config.cloud_list), (CREATE, config.cloud_create)):
        for key, value in keys.items():
            shown = MASK if is_secret(key) else value
            yield (title, key), _Setting(value, shown, again and _is_taken(title, key))
    for size in config.sizes:
        for option_name, value in _given(config, size):
            known = SIZE.option(option_name)
            applied = known is not None and known.reload
            yield (f"Size {size.name}", option_name), _Setting(value, str(value), applied)


def _given(config: Config, size: SizeSection) -> Iterator[tuple[str, str]]:
    """The options of a size that the file gives, as written."""
    for (section, option), place in config.places.items():
        if section == f"Size {size.name}":
            yield option, place.written
