"""The encoding of a decision's snapshot as its changes since the one before."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any

from nodemanager.core.observe.history import History
from nodemanager.core.observe.snapshot import Snapshot
from nodemanager.journal.codec import codec_of
from nodemanager.lib.logline import Json

_OWN = ("plan_id", "now", "wall")
"""Fields that differ every time."""
_HINTS = typing.get_type_hints(Snapshot)
_CODECS = {
    one.name: codec_of(_HINTS[one.name])
    for one in dataclasses.fields(Snapshot)
    if one.name not in (*_OWN, "history")
}
_MEMBERS = {
    name: codec_of(typing.get_args(_HINTS[name])[1])
    for name in _CODECS
    if typing.get_origin(_HINTS[name]) is not None and "Mapping" in str(_HINTS[name])
}
BLANK = Snapshot("", 0.0, 0.0, History())
"""The snapshot that a segment's first decision is compared with."""


def encode_snapshot(before: Snapshot, snapshot: Snapshot) -> Json:
    """The changes from `before` to `snapshot`, without the history."""
    data: Json = {name: getattr(snapshot, name) for name in _OWN}
    for name, codec in _CODECS.items():
        was, now = getattr(before, name), getattr(snapshot, name)
        if was is now or (was == now and type(was) is type(now)):
            continue
        if name in _MEMBERS:
            data[name] = _mapping_change(was, now, _MEMBERS[name].encode)
        elif isinstance(now, frozenset):
            data[name] = {"+": sorted(now - was), "-": sorted(was - now)}
        else:
            data[name] = codec.encode(now)
    return data


def decode_snapshot(before: Snapshot, data: Json) -> Snapshot:
    """The snapshot after those changes, with an empty history."""
    values: Json = {}
    for name, change in data.items():
        if name in _OWN:
            values[name] = change
            continue
        was = getattr(before, name)
        if name in _MEMBERS:
            decode = _MEMBERS[name].decode
            kept = {key: one for key, one in was.items() if key not in set(change["-"])}
            values[name] = kept | {key: decode(one) for key, one in change["+"].items()}
        elif isinstance(was, frozenset):
            values[name] = (was - frozenset(change["-"])) | frozenset(change["+"])
        else:
            values[name] = _CODECS[name].decode(change)
    return dataclasses.replace(before, **values)


def _mapping_change(was: Mapping[str, Any], now: Mapping[str, Any], encode: Any) -> Json:
    return {
        "+": {key: encode(one) for key, one in now.items() if key not in was or was[key] != one},
        "-": [key for key in was if key not in now],
    }
