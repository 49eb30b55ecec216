"""The encoding of decisions as changes since the one before, in snapshot and verdicts."""

from __future__ import annotations

import dataclasses
import json
import typing
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.observe.history import History
from nodemanager.core.plan.plan import Plan
from nodemanager.core.plan.snapshot import Snapshot
from nodemanager.journal.codec import codec_of

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
_MEASURES = codec_of(Any)
_REASONS = {reason.value: reason for reason in Reason}
BLANK = Snapshot("", 0.0, 0.0, History())
"""The snapshot that a segment's first decision is compared with."""

Data = dict[str, Any]


def encode_snapshot(before: Snapshot, snapshot: Snapshot) -> Data:
    """The changes from `before` to `snapshot`, without the history."""
    data: Data = {name: getattr(snapshot, name) for name in _OWN}
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


def decode_snapshot(before: Snapshot, data: Data) -> Snapshot:
    """The snapshot after those changes, with an empty history."""
    values: Data = {}
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


def _mapping_change(was: Mapping[str, Any], now: Mapping[str, Any], encode: Any) -> Data:
    return {
        "+": {key: encode(one) for key, one in now.items() if key not in was or was[key] != one},
        "-": [key for key in was if key not in now],
    }


class VerdictChange(NamedTuple):
    """A record's or node's verdict whose kind or reason has changed.

    `subject` is `record` or `node`. `kind` and `reason` are None when it is no longer judged.
    """

    subject: str
    id: str
    kind: Kind | None
    reason: Reason | None
    measures: Mapping[str, Any] | None = None


Standing = dict[tuple[str, str], tuple[Kind, Reason]]
"""The current kind and reason of each verdict, by subject and id."""


def verdicts_of(made: Plan) -> list[tuple[str, Verdict]]:
    """The plan's verdicts with their subjects, records first."""
    return [
        *(("record", verdict) for verdict in made.records),
        *(("node", view.verdict) for view in made.views),
    ]


def verdict_changes(
    standing: Standing, verdicts: Iterable[tuple[str, Verdict]]
) -> tuple[list[VerdictChange], Standing]:
    """The changes from `standing` to `verdicts`, and the new standing."""
    changes: list[VerdictChange] = []
    now: Standing = {}
    for subject, (kind, reason, id, measures) in verdicts:
        key = (subject, id)
        if standing.get(key) != (kind, reason):
            changes.append(VerdictChange(subject, id, kind, reason, measures))
        now[key] = (kind, reason)
    changes.extend(
        VerdictChange(subject, id, None, None) for subject, id in standing.keys() - now.keys()
    )
    return changes, now


def encode_changes(changes: Iterable[VerdictChange]) -> list[Any]:
    return [
        [subject, id]
        if kind is None or reason is None
        else [subject, id, kind.value, reason.value, _MEASURES.encode(measures)]
        for subject, id, kind, reason, measures in changes
    ]


def decode_changes(data: list[Any]) -> tuple[VerdictChange, ...]:
    return tuple(
        VerdictChange(row[0], row[1], None, None)
        if len(row) == 2
        else VerdictChange(row[0], row[1], Kind(row[2]), _REASONS[row[3]], _MEASURES.decode(row[4]))
        for row in data
    )


def digest(verdicts: Iterable[tuple[str, Verdict]]) -> int:
    """A checksum of the verdicts with their measures."""
    text = json.dumps([*verdicts], separators=(",", ":"), default=str)
    return zlib.crc32(text.encode("ascii"))
