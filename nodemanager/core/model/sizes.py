"""The size of a node and its price (SAFETY.md U11)."""

from __future__ import annotations

from collections.abc import Iterable

from nodemanager.core.model.world import CloudNode, Record, Size


def by_price(sizes: Iterable[Size]) -> tuple[Size, ...]:
    """`sizes`, cheapest first; those of unknown or zero price come last (S4). Those of one group
    and price stay in their order."""

    def key(size: Size) -> tuple[bool, float, int, str]:
        return not size.price, size.price or 0.0, size.cores, size.group or size.name

    return tuple(sorted(sizes, key=key))


def size_name(node: CloudNode, record: Record | None = None) -> str | None:
    """The name of the node's size: from its tag, else from its record's claim, else the cloud's.

    `record` is the one that the node pairs with. Where another program booted
    the node, neither tag nor claim has one.
    """
    return node.tags.size or _claimed_size(record) or node.size


class Sizes:
    """The sizes that may be booted, by name or by instance type.

    If several sizes share an instance type, the cheapest is found by that type.
    """

    def __init__(self, sizes: Iterable[Size]) -> None:
        self.by_price = by_price(sizes)
        self._by_name = {size.name: size for size in self.by_price}
        self._by_type: dict[str, Size] = {}
        for size in self.by_price:
            self._by_type.setdefault(size.instance_type, size)
        self._found: dict[tuple[str | None, ...], tuple[Size, str, float]] = {}
        """What `priced` found, by what it looked at: many nodes have few sizes."""

    def named(self, name: str | None) -> Size | None:
        """The size with that name, else with that instance type, else None."""
        if name is None:
            return None
        return self._by_name.get(name) or self._by_type.get(name)

    def of_node(self, node: CloudNode, record: Record | None = None) -> Size | None:
        """The node's size, or None; by its type if the size it was booted as is not configured."""
        by_name, size = self._by_name, node.size
        for name in (node.tags.size, _claimed_size(record)):
            if name is not None and name in by_name:
                return by_name[name]
        return None if size is None else self._by_type.get(size) or by_name.get(size)

    def priced(
        self, node: CloudNode, record: Record | None = None
    ) -> tuple[Size | None, str | None, float]:
        """The node's size, that size's name, and its price per hour (0: unknown).

        Without a configured size: None, the name it was booted as, and the price in its claim.
        """
        claim = record.claim if record is not None else None
        looked_at = node.tags.size, claim.size if claim is not None else None, node.size
        found = self._found.get(looked_at)
        if found is not None:
            return found
        size = self.of_node(node, record)
        if size is not None:
            found = self._found[looked_at] = size, size.name, size.price or 0.0
            return found
        return None, size_name(node, record), (claim.price or 0.0) if claim is not None else 0.0

    def called(self, node: CloudNode, record: Record | None = None) -> str | None:
        """The name of the node's size, or the name it was booted as if that is not configured."""
        return self.priced(node, record)[1]


def _claimed_size(record: Record | None) -> str | None:
    return record.claim.size if record is not None and record.claim is not None else None
