"""Whether a node is to be replaced: it has another image or type than new ones, or is too old.

What is unknown on either side is no reason. The wanted image is the immutable id that the adapter
found with the newest cloud listing.
"""

from __future__ import annotations

from typing import Any

from nodemanager.core.model.reasons import OUTDATED, Kind, Reason, having
from nodemanager.core.model.settings import Settings
from nodemanager.core.model.sizes import size_name
from nodemanager.core.model.verdict import Verdict
from nodemanager.core.model.world import CloudNode, Record, Size
from nodemanager.core.observe.signs import claimed_at_of, launched_for
from nodemanager.core.observe.snapshot import Snapshot

ROTATE = having(OUTDATED)
"""The reasons for a shutdown of an idle node whose place another one takes."""


def outdated(
    node: CloudNode,
    record: Record | None,
    size: Size,
    snapshot: Snapshot,
    settings: Settings,
) -> Verdict | None:
    """The shutdown of a node of that size that is to be replaced; None if it is as new ones are.

    Nor is one of which that is not known.
    """
    image = snapshot.history.image
    if image is not None and node.image is not None and node.image != image:
        measures: dict[str, Any] = {"old": node.image, "new": image}
        return Verdict(Kind.SHUTDOWN, Reason.OTHER_IMAGE, node.id, measures)
    kind = size.instance_type
    if _is_another(node.size, kind) and size_name(node, record) == size.name:
        measures = {"old": node.size, "new": kind}
        return Verdict(Kind.SHUTDOWN, Reason.OTHER_TYPE, node.id, measures)
    most = settings.max_node_age
    if most is not None and node.created_at is not None:
        age_s = launched_for(node.created_at, snapshot, claimed_at_of(record))
        if age_s > most:
            measures = {"age_s": age_s, "limit_s": most}
            return Verdict(Kind.SHUTDOWN, Reason.TOO_OLD, node.id, measures)
    return None


def is_in_vain(node: CloudNode, record: Record | None, size: Size, snapshot: Snapshot) -> bool:
    """Whether the node was booted as new ones are wanted now, and still is not so.

    Then another replacement would be no better: the cloud gives something else than was asked for.
    """
    claim, image = None if record is None else record.claim, snapshot.history.image
    if claim is None or (claim.node_id or node.id) != node.id:
        return False
    if claim.image is not None and claim.image == image and node.image not in (None, image):
        return True
    kind = size.instance_type
    return claim.instance_type == kind and claim.size == size.name and _is_another(node.size, kind)


def _is_another(listed: str | None, wanted: str) -> bool:
    # Some clouds write the names of their types with other capitals than they take.
    return listed is not None and listed != wanted and listed.casefold() != wanted.casefold()
