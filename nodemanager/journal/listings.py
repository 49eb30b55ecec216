"""The encoding of a listing as its changes since the one before, column by column.

Most of a listing is the same as a minute ago. What changed (a ping's time, a version) changed in
many items at once, and a column of such values compresses well. Ping secrets are left out.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

from nodemanager.core.model.changed import same_items
from nodemanager.core.model.world import CloudNode, Listing, Record
from nodemanager.journal.codec import Codec, codec_of, without_secrets
from nodemanager.lib.logline import Json

T = TypeVar("T", CloudNode, Record)
_NEW = -1


class ListingCodec(Generic[T]):
    """Encodes and decodes listings of one type of item.

    `before` is the newest complete listing of that source; it must be the same for both calls.
    """

    def __init__(self, item: type[T], id_field: str) -> None:
        self._hints = hints = typing.get_type_hints(item)
        fields = [one for one in dataclasses.fields(item) if one.name != "ping_secret"]
        self._item: Any = item
        self._names = [one.name for one in fields]
        self._defaults = {one.name: _default(one) for one in fields}
        self._codecs = {one.name: _field_codec(one.name, hints[one.name]) for one in fields}
        self._values = attrgetter(*self._names)
        self._getters = {name: attrgetter(name) for name in self._names}
        every = [one.name for one in dataclasses.fields(item)]
        self._places = {name: place for place, name in enumerate(every)}
        self._all_values = attrgetter(*every)
        self._id = attrgetter(id_field)

    def encode(self, before: Listing[T] | None, listing: Listing[T]) -> Json:
        old = () if before is None else before.items
        is_same = same_items(old, listing.items)
        sources = None if is_same else self._sources(old, listing.items)
        data: Json = {"at": [listing.started_at, listing.ended_at]}
        if not listing.complete:
            data["partial"] = 1
        if listing.problems:
            data["problems"] = list(listing.problems)
        if is_same:
            return data
        if sources is None:
            pairs = list(zip(old, listing.items, strict=True))
        else:
            data["from"] = _runs(sources)
            new = [item for item, at in zip(listing.items, sources, strict=True) if at == _NEW]
            if new:
                data["new"] = self._table(new)
            pairs = [
                (old[at], item)
                for item, at in zip(listing.items, sources, strict=True)
                if at != _NEW
            ]
        changed = self._changed(pairs)
        if changed:
            data["changed"] = changed
        return data

    def decode(self, before: Listing[T] | None, data: Json) -> Listing[T]:
        """The listing. Raises ValueError, KeyError or TypeError for data not from `encode`."""
        old = () if before is None else before.items
        changes = self._changes(data.get("changed", {}))
        items: list[T] = []
        new = iter(self._rows(data["new"])) if "new" in data else iter(())
        number = 0
        for start, count in data.get("from", [[0, len(old)]]):
            for at in range(start, start + count):
                if start == _NEW:
                    items.append(next(new))
                    continue
                item = old[at]
                if number in changes:
                    item = self._replaced(item, changes[number])
                items.append(item)
                number += 1
        started_at, ended_at = data["at"]
        return Listing(
            tuple(items),
            started_at,
            ended_at,
            complete="partial" not in data,
            problems=tuple(data.get("problems", ())),
        )

    def _replaced(self, item: T, changes: dict[str, Any]) -> T:
        """The same as dataclasses.replace in half the time; a day has a million of these calls."""
        values = list(self._all_values(item))
        for name, value in changes.items():
            values[self._places[name]] = value
        replaced: T = self._item(*values)
        return replaced

    def _sources(self, old: Sequence[T], items: Sequence[T]) -> list[int] | None:
        """For each item its index in `old`, or _NEW; None when all have their old indexes."""
        ids = [self._id(item) for item in items]
        old_ids = [self._id(item) for item in old]
        if ids == old_ids:
            return None
        places: dict[str, list[int]] = {}
        for place in range(len(old) - 1, -1, -1):
            places.setdefault(old_ids[place], []).append(place)
        return [places[one].pop() if places.get(one) else _NEW for one in ids]

    def _changed(self, pairs: list[tuple[T, T]]) -> Json:
        """By field: [gaps between the indexes of the pairs that differ, their new values].

        Or the name of another field of this type that changed alike: a ping stamps two.
        """
        # Mostly no node changed, and is the same object as before; of records, a few columns did.
        places = [place for place, (one, other) in enumerate(pairs) if one is not other]
        old = [pairs[place][0] for place in places]
        new = [pairs[place][1] for place in places]
        changed: Json = {}
        for name, get in self._getters.items():
            was, now = list(map(get, old)), list(map(get, new))
            if was == now:
                continue
            numbers = [
                number
                for number, (one, other) in enumerate(zip(was, now, strict=True))
                if one is not other and one != other
            ]
            gaps = _gaps([places[number] for number in numbers])
            column = [gaps, self._encoded(name, [now[one] for one in numbers])]
            alike = (one for one in changed if self._hints[one] == self._hints[name])
            changed[name] = next((one for one in alike if changed[one] == column), column)
        return changed

    def _changes(self, columns: Json) -> dict[int, dict[str, Any]]:
        changes: dict[int, dict[str, Any]] = {}
        for name, column in columns.items():
            gaps, values = columns[column] if isinstance(column, str) else column
            number = -1
            for gap, value in zip(gaps, self._decoded(name, values), strict=True):
                number += gap
                changes.setdefault(number, {})[name] = value
        return changes

    def _table(self, items: Sequence[T]) -> Json:
        """Whole items by column, without the columns that hold only defaults."""
        table: Json = {"rows": len(items)}
        columns = zip(*map(self._values, items), strict=True)
        for name, values in zip(self._names, columns, strict=True):
            default = self._defaults[name]
            if any(value != default for value in values):
                table[name] = self._encoded(name, values)
        return table

    def _rows(self, table: Json) -> list[T]:
        columns = {
            name: self._decoded(name, values) for name, values in table.items() if name != "rows"
        }
        return [
            self._item(**{name: values[row] for name, values in columns.items()})
            for row in range(table["rows"])
        ]

    def _encoded(self, name: str, values: Sequence[Any]) -> list[Any]:
        codec = self._codecs[name]
        return list(values) if codec.plain else [codec.encode(value) for value in values]

    def _decoded(self, name: str, values: list[Any]) -> list[Any]:
        codec = self._codecs[name]
        return values if codec.plain else [codec.decode(value) for value in values]


def _field_codec(name: str, hint: Any) -> Codec:
    codec = codec_of(hint)
    if name not in ("info", "properties"):
        return codec
    return Codec(lambda value: codec.encode(without_secrets(value)), codec.decode)


def _default(one: dataclasses.Field[Any]) -> Any:
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory()
    return one.default


def _runs(sources: list[int]) -> list[list[int]]:
    """[start, count] for each run of consecutive indexes, or of new items."""
    runs: list[list[int]] = []
    for at in sources:
        if runs:
            start, count = runs[-1]
            if at == (_NEW if start == _NEW else start + count):
                runs[-1][1] += 1
                continue
        runs.append([at, 1])
    return runs


def _gaps(numbers: list[int]) -> list[int]:
    return [number - before for number, before in zip(numbers, [-1, *numbers], strict=False)]


NODES = ListingCodec(CloudNode, "id")
RECORDS = ListingCodec(Record, "uuid")
