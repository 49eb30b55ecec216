"""What a create order bears, and when it is sent: U5, U11."""

from __future__ import annotations

from tests.simulation.cloud import Instance
from tests.simulation.truth import Truth
from tests.simulation.world import World

SENT_WITHIN_S = 60.0
ON_ITS_WAY_S = 15.0
"""From the look at the claim's age to the call: a message inside the process may take seconds."""


class CreateRules:
    """Watches each create that takes effect."""

    def __init__(self, world: World, truth: Truth) -> None:
        self.world, self.truth = world, truth
        world.cloud.books.created.append(self._created)

    def _created(self, made: Instance, by: str) -> None:
        what = f"{by} creates {made.id}"
        tags = made.tags
        if not made.name or None in (tags.pool, tags.record, tags.incarnation):
            self.world.violate("U5", f"{what} without a name or with {tags}")
        settings = self.world.managers[by].pool.settings
        known = self.truth.bound_of.get(tags.incarnation or "", settings)
        sizes = {size.name: size.instance_type for size in (*known.sizes, *settings.sizes)}
        if tags.size is None or sizes.get(tags.size, made.size) != made.size:
            self.world.violate("U11", f"{what} of {made.size}, which its tags call {tags.size}")
        record = self.world.registry.record(tags.record or "")
        claim = None if record is None else record.claim
        if claim is not None and claim.incarnation == tags.incarnation and claim.size != tags.size:
            self.world.violate("U11", f"{what}: {tags.size} by its tags, {claim.size} by its claim")
        self._in_time(made, by, what)
        self._is_the_first(made, what)

    def _in_time(self, made: Instance, by: str, what: str) -> None:
        claimed_at = self.truth.claimed_at.get(made.tags.incarnation or "")
        sent_at = self.world.weather.sent_at
        if claimed_at is None or self.world.managers[by].was_paused(claimed_at):
            return
        late_s = sent_at - claimed_at - self.world.clock_lies
        if late_s > SENT_WITHIN_S + ON_ITS_WAY_S:
            self.world.violate("U5", f"{what}, {late_s:.0f} s after its claim")

    def _is_the_first(self, made: Instance, what: str) -> None:
        """Where there are no client tokens, a create is sent once, but for one that was refused."""
        if self.world.cloud.traits.client_tokens:
            return
        for other in self.world.cloud.by_record.get(made.tags.record or "", ()):
            is_double = other is not made and other.tags == made.tags and not other.twin
            if is_double and other.refused is None:
                self.world.violate("U5", f"{what} once more, after {other.id}")
