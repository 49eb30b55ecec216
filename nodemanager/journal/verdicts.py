"""The verdicts of a decision as the journal tells them: their changes, and a checksum of all.

Most verdicts are the very objects of the decision before, because a plan takes over what comes out
the same. Of those nothing is compared by value, and no text is made.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nodemanager.core.model.changed import same_items
from nodemanager.core.model.reasons import Kind, Reason
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.plan.plan import Plan
from nodemanager.journal.codec import codec_of

_MEASURES = codec_of(Any)
_REASONS = {reason.value: reason for reason in Reason}
_TOGETHER = 250
"""How many verdicts share one text. If one of them changes, the text is made again."""


class VerdictChange(NamedTuple):
    """A record's or node's verdict whose kind or reason has changed.

    `subject` is `record` or `node`. `kind` and `reason` are None when it is no longer judged.
    """

    subject: str
    id: str
    kind: Kind | None
    reason: Reason | None
    measures: Mapping[str, Any] | None = None


CurrentVerdicts = dict[tuple[str, str], tuple[Kind, Reason]]
"""The current kind and reason of each verdict, by subject and id."""


def verdicts_of(made: Plan) -> list[tuple[str, Verdict]]:
    """The plan's verdicts with their subjects, records first."""
    return [
        *(("record", verdict) for verdict in made.records),
        *(("node", view.verdict) for view in made.views),
    ]


def digest(verdicts: Iterable[tuple[str, Verdict]]) -> int:
    return zlib.crc32(_text(verdicts))


@dataclass(frozen=True, slots=True)
class _Part:
    """The verdicts of one decision on all records, or on all nodes.

    `texts` are what `digest` has of them, of _TOGETHER verdicts each.
    """

    subject: str
    verdicts: Sequence[Verdict] = ()
    by_id: Mapping[str, Verdict] = field(default_factory=dict)
    texts: Sequence[bytes] = ()

    def then(self, verdicts: Sequence[Verdict]) -> _Part:
        if same_items(self.verdicts, verdicts):
            return self
        by_id = {verdict.id: verdict for verdict in verdicts}
        starts = range(0, len(verdicts), _TOGETHER)
        texts = [
            self._text(place, verdicts[at : at + _TOGETHER]) for place, at in enumerate(starts)
        ]
        return _Part(self.subject, verdicts, by_id, texts)

    def _text(self, place: int, verdicts: Sequence[Verdict]) -> bytes:
        at = place * _TOGETHER
        if same_items(self.verdicts[at : at + _TOGETHER], verdicts):
            return self.texts[place]
        return _text([(self.subject, verdict) for verdict in verdicts])[1:-1]

    def changed(self, before: _Part) -> list[VerdictChange]:
        """The verdicts of another kind or reason than before, or new."""
        if before is self:
            return []
        changes: list[VerdictChange] = []
        known_as = before.by_id.get
        for verdict in self.verdicts:
            known = known_as(verdict.id)
            if known is verdict:
                continue
            kind, reason, id, measures, _ = verdict
            if known is None or known.kind is not kind or known.reason is not reason:
                changes.append(VerdictChange(self.subject, id, kind, reason, measures))
        return changes

    def ended(self, before: _Part) -> list[VerdictChange]:
        if before is self:
            return []
        ids = before.by_id.keys() - self.by_id.keys()
        return [VerdictChange(self.subject, id, None, None) for id in ids]


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of one decision."""

    records: _Part = field(default_factory=lambda: _Part("record"))
    nodes: _Part = field(default_factory=lambda: _Part("node"))

    def then(self, made: Plan) -> Verdicts:
        nodes = [view.verdict for view in made.views]
        return Verdicts(self.records.then(made.records), self.nodes.then(nodes))

    @property
    def digest(self) -> int:
        return zlib.crc32(b"[%b]" % b",".join([*self.records.texts, *self.nodes.texts]))


def verdict_changes(before: Verdicts, now: Verdicts) -> list[VerdictChange]:
    """The changes from the verdicts of one decision to those of the next."""
    return [
        *now.records.changed(before.records),
        *now.nodes.changed(before.nodes),
        *now.records.ended(before.records),
        *now.nodes.ended(before.nodes),
    ]


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


def _text(verdicts: Iterable[tuple[str, Verdict]]) -> bytes:
    # A verdict's rule follows from the rest.
    rows = [(subject, verdict[:4]) for subject, verdict in verdicts]
    return json.dumps(rows, separators=(",", ":"), default=str).encode("ascii")
