"""What EC2 can be asked before the first node boots: each permission by name, sizes and places.

A permission is asked for by the call itself with DryRun: EC2 answers `DryRunOperation` where it
would do the work. An API that ignores DryRun would do the work, so nothing that changes anything is
sent to an endpoint that did not honour DryRun for a harmless call before, and TerminateInstances to
none but Amazon's. What else the file names, such as groups and a key, is part of RunInstances.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from xml.etree.ElementTree import Element

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import CheckStatus, CloudChecks, Found, Offer
from nodemanager.cloud.ec2.access import Access
from nodemanager.cloud.ec2.errors import NO_SUCH_ACTION, Refusal
from nodemanager.cloud.ec2.options import SUBNET, Template
from nodemanager.cloud.ec2.order import filter_params, literal, run_params
from nodemanager.cloud.ec2.wire import Wire
from nodemanager.cloud.tags import POOL_TAG
from nodemanager.core.model.world import Tags
from nodemanager.core.observe.pools import preflight_of
from nodemanager.lib.near import did_you_mean

READS = (
    "DescribeInstances",
    "DescribeVolumes",
    "DescribeNetworkInterfaces",
    "DescribeAddresses",
    "DescribeImages",
)
"""Needed by the daemon itself. What is only asked here is in etc/iam/ec2-check.json."""
DRY_RUN_WORKS = "DryRunOperation"
_PERFORM = re.compile(r"not authorized to perform:? (\w+:\w+)(?: on resource: (\S+))?")
_KEPT = 300


@dataclass
class Ec2Checks(CloudChecks):
    """EC2's own checks, in order."""

    wire: Callable[[], Wire]
    access: Access
    template: Template
    _honours_dry_run: bool = False

    ROLE = "allow it in the manager's policy: etc/iam/ec2.json has all that is needed"
    READS = "to have it asked, allow what etc/iam/ec2-check.json has"
    UNKNOWN = NO_SUCH_ACTION

    @property
    def own_place(self) -> str | None:
        return self.template.subnet_id or self.template.availability_zone

    @property
    def all_spot(self) -> bool:
        return self.template.spot

    def rights(self) -> Mapping[str, Callable[[], Found]]:
        asks: dict[str, Callable[[], Found]] = {
            **{action: partial(self._may_read, action) for action in READS},
            "RunInstances": self._may_run,
            "TerminateInstances": self._may_terminate,
        }
        if self.template.ssh_key is not None:
            asks["ImportKeyPair"] = self._may_import
        return {f"permission ec2:{action}": ask for action, ask in asks.items()}

    def _may_read(self, action: str) -> Found:
        found = self._dry(action, {})
        if action == "DescribeInstances":
            self._honours_dry_run = found.text == "allowed"
        return found

    def _may_run(self) -> Found:
        if not self._honours_dry_run:
            return Found(
                "this API is not known to honour DryRun",
                CheckStatus.NOT_ASKED,
                "try it with --boot",
            )
        if not self.wanted.sizes:
            return Found("no size to ask with", CheckStatus.NOT_ASKED)
        size = min(self.wanted.sizes, key=lambda one: one.price or float("inf"))
        # Amazon's policies are bound to the pool's tag. Elsewhere a node that an API made in spite
        # of DryRun must not be the pool's.
        pool = self.wanted.pool if self.access.amazon else preflight_of(self.wanted.pool)
        token = secrets.token_hex(16)
        place = next(iter(size.places), None)
        order = CreateOrder(
            "nodemanager-check-cloud", size, Tags(pool), token, "nothing", place=place
        )
        params = run_params(order, self.template, 0)
        return self._dry("RunInstances", params, f" as {size.name}", made=self._end_made)

    def _end_made(self, root: Element) -> Found:
        made = self._texts(root, "instanceId")
        params = {f"InstanceId.{number}": one for number, one in enumerate(made, 1)}
        self.wire().call("TerminateInstances", params)
        return Found(
            f"this API ignored DryRun: it made {', '.join(made)}, which was ended at once",
            CheckStatus.FAILED,
            "make sure that it is gone; this API can't be asked for permissions",
        )

    def _may_terminate(self) -> Found:
        if not (self._honours_dry_run and self.access.amazon):
            return Found(
                "asked of Amazon's own API alone: another might not honour DryRun",
                CheckStatus.NOT_ASKED,
                "try it with --boot",
            )
        ours = filter_params({f"tag:{POOL_TAG}": literal(self.wanted.pool)})
        nodes = self.wire().instances(ours)
        if not nodes:
            return Found(
                "the pool has no node to ask about, and the permission is bound to its tag",
                CheckStatus.NOT_ASKED,
                "try it with --boot",
            )
        return self._dry("TerminateInstances", {"InstanceId.1": nodes[0].id})

    def _may_import(self) -> Found:
        name = f"nodemanager-check-{secrets.token_hex(8)}"
        if not self._honours_dry_run:
            return Found("this API is not known to honour DryRun", CheckStatus.NOT_ASKED)
        return self._dry("ImportKeyPair", {"KeyName": name, "PublicKeyMaterial": "bm9uZQ=="})

    def _dry(
        self,
        action: str,
        params: Mapping[str, str],
        more: str = "",
        made: Callable[[Element], Found] | None = None,
    ) -> Found:
        """Whether the action would be done with these parameters; `made` undoes what was done."""
        try:
            root = self.wire().call(action, {**params, "DryRun": "true"})
        except Refusal as refusal:
            if refusal.code == DRY_RUN_WORKS:
                return Found(f"allowed{more}")
            if refusal.code == "UnauthorizedOperation":
                return Found(_missing(refusal, action), CheckStatus.FAILED, self.ROLE)
            raise
        return Found(f"allowed{more} (this API ignores DryRun)") if made is None else made(root)

    def offer(self, kind: str, place: str | None) -> Offer | Found:
        """What EC2 says of an instance type, which may be newer than libcloud's list of them."""
        zone = None if place is None or place.startswith(SUBNET) else place
        filters = {"instance-type": kind, **({"location": zone} if zone else {})}
        params = {"LocationType": "availability-zone", **filter_params(filters)}
        offered = self.wire().call("DescribeInstanceTypeOfferings", params)
        zones = sorted(self._texts(offered, "location"))
        if not zones:
            where = f"zone {zone}" if zone else f"region {self.access.region}"
            text = f"{where} does not offer {kind}"
            return Found(text, CheckStatus.FAILED, "choose another size or zone")
        root = self.wire().call("DescribeInstanceTypes", {"InstanceType.1": kind})
        (cores,) = map(int, self._texts(root, "defaultVCpus"))
        (ram_mb,) = map(int, self._texts(root, "sizeInMiB")[:1])
        classes = root.iterfind(f".//{{{self.wire().namespace}}}supportedUsageClasses/*")
        spot = "spot" in {one.text for one in classes}
        return Offer(cores, ram_mb, spot=spot, where=f"in {', '.join(zones)}")

    def place(self, place: str) -> Found:
        """Whether the account has that zone or subnet; near names where it has no such zone."""
        if place.startswith(SUBNET):
            return self._subnet(place)
        root = self.wire().call("DescribeAvailabilityZones", {})
        pairs = zip(self._texts(root, "zoneName"), self._texts(root, "zoneState"), strict=False)
        states = dict(pairs)
        state = states.get(place)
        if state is None:
            text = f"{self.access.region} has no zone {place}{did_you_mean(place, [*states])}"
            return Found(text, CheckStatus.FAILED, f"name one of: {', '.join(sorted(states))}")
        if state != "available":
            return Found(f"{place} is {state}", CheckStatus.FAILED, "take another zone")
        return Found(f"{place} is available")

    def _subnet(self, subnet: str) -> Found:
        root = self.wire().call("DescribeSubnets", {"SubnetId.1": subnet})
        names = ("availableIpAddressCount", "availabilityZone", "vpcId")
        free, zone, vpc = ((self._texts(root, name) or ["?"])[0] for name in names)
        text = f"{subnet} in {zone} of {vpc}, {free} addresses free"
        wanted = self.template.availability_zone if subnet == self.template.subnet_id else None
        if wanted and zone != wanted:
            text = f"{text}, but availability_zone = {wanted}"
            return Found(text, CheckStatus.FAILED, "leave one of them out")
        if free == "0":
            return Found(text, CheckStatus.FAILED, "no node fits there: use another subnet")
        return Found(text)

    def _texts(self, root: Element, name: str) -> list[str]:
        found = (element.text for element in root.iter() if element.tag.endswith(f"}}{name}"))
        return [text for text in found if text]


def _missing(refusal: Refusal, action: str) -> str:
    """The permission that EC2's refusal names, else that of the call."""
    named = _PERFORM.search(refusal.message)
    if named is None:
        return f"ec2:{action} is not allowed: {refusal.message[:_KEPT]}"
    on = f" on {named[2]}" if named[2] else ""
    return f"{named[1]} is not allowed{on}"
