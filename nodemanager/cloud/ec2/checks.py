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
from dataclasses import dataclass, replace
from functools import partial
from xml.etree.ElementTree import Element

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted, held_against
from nodemanager.cloud.ec2.errors import NO_SUCH_ACTION, UNAUTHORIZED, Refusal
from nodemanager.cloud.ec2.options import SUBNET, Access, Template
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
POLICY = "allow it in the manager's policy: etc/iam/ec2.json has all that is needed"
CHECK_POLICY = "to have it asked, allow what etc/iam/ec2-check.json has"
_PERFORM = re.compile(r"not authorized to perform:? (\w+:\w+)(?: on resource: (\S+))?")
_KEPT = 300


@dataclass
class Ec2Checks:
    """EC2's own checks, in order. `wire` gives a connection; nothing is sent before a check."""

    _wire: Callable[[], Wire]
    _access: Access
    _template: Template
    _wanted: Wanted
    _honours_dry_run: bool = False

    def all(self) -> list[Check]:
        template = self._template
        found = [self._permission(action, partial(self._may_read, action)) for action in READS]
        found.append(self._permission("RunInstances", self._may_run))
        found.append(self._permission("TerminateInstances", self._may_terminate))
        if template.ssh_key is not None:
            found.append(self._permission("ImportKeyPair", self._may_import))
        if not self._access.amazon:
            found.append(Check("image listed", self._image))
        types = self._wanted.types
        found += [Check(f"offer of {kind}", partial(self._offer, kind)) for kind in types]
        if template.subnet_id is not None:
            found.append(Check("subnet", partial(self._subnet, template.subnet_id)))
        for place in self._wanted.places:
            look = self._subnet if place.startswith(SUBNET) else self._zone
            found.append(Check(f"place {place}", partial(look, place)))
        return found

    @staticmethod
    def _permission(action: str, ask: Callable[[], Found]) -> Check:
        return Check(f"permission ec2:{action}", ask, POLICY)

    # Permissions.

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
        if not self._wanted.sizes:
            return Found("no size to ask with", CheckStatus.NOT_ASKED)
        size = min(self._wanted.sizes, key=lambda one: one.price or float("inf"))
        # Amazon's policies are bound to the pool's tag. Elsewhere a node that an API made in spite
        # of DryRun must not be the pool's.
        pool = self._wanted.pool if self._access.amazon else preflight_of(self._wanted.pool)
        token = secrets.token_hex(16)
        place = next(iter(size.places), None)
        order = CreateOrder(
            "nodemanager-check-cloud", size, Tags(pool), token, "nothing", place=place
        )
        params = run_params(order, self._template, 0)
        return self._dry("RunInstances", params, f" as {size.name}", made=self._end_made)

    def _end_made(self, root: Element) -> Found:
        made = self._texts(root, "instanceId")
        params = {f"InstanceId.{number}": one for number, one in enumerate(made, 1)}
        self._wire().call("TerminateInstances", params)
        return Found(
            f"this API ignored DryRun: it made {', '.join(made)}, which was ended at once",
            CheckStatus.FAILED,
            "make sure that it is gone; this API can't be asked for permissions",
        )

    def _may_terminate(self) -> Found:
        if not (self._honours_dry_run and self._access.amazon):
            return Found(
                "asked of Amazon's own API alone: another might not honour DryRun",
                CheckStatus.NOT_ASKED,
                "try it with --boot",
            )
        ours = filter_params({f"tag:{POOL_TAG}": literal(self._wanted.pool)})
        nodes = self._wire().instances(ours)
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
            root = self._wire().call(action, {**params, "DryRun": "true"})
        except Refusal as refusal:
            if refusal.code == DRY_RUN_WORKS:
                return Found(f"allowed{more}")
            if refusal.code == "UnauthorizedOperation":
                return Found(_missing(refusal, action), CheckStatus.FAILED, POLICY)
            raise
        return Found(f"allowed{more} (this API ignores DryRun)") if made is None else made(root)

    # What the daemon itself never asks for.

    def _offer(self, kind: str) -> Found:
        """Whether the region, or the zone of the file, offers an instance type."""
        zone = self._template.availability_zone
        filters = {"instance-type": kind, **({"location": zone} if zone else {})}
        params = {
            "LocationType": "availability-zone",
            **filter_params(filters),
        }
        root = self._optional("DescribeInstanceTypeOfferings", params)
        if isinstance(root, Found):
            return root
        zones = sorted(self._texts(root, "location"))
        where = f"zone {zone}" if zone else f"region {self._access.region}"
        if not zones:
            return Found(
                f"{where} does not offer {kind}", CheckStatus.FAILED, "choose another size or zone"
            )
        return self._described(kind, f"in {', '.join(zones)}")

    def _described(self, kind: str, where: str) -> Found:
        """What EC2 says of an instance type, which may be newer than libcloud's list of them."""
        root = self._optional("DescribeInstanceTypes", {"InstanceType.1": kind})
        if isinstance(root, Found):
            return replace(root, text=f"{where}; {root.text}")
        sizes = self._wanted.types[kind]
        (cores,) = map(int, self._texts(root, "defaultVCpus"))
        (ram_mb,) = map(int, self._texts(root, "sizeInMiB")[:1])
        text = f"{where}: {cores} cores, {ram_mb} MB"
        classes = root.iterfind(f".//{{{self._wire().namespace}}}supportedUsageClasses/*")
        spot = self._template.spot or any(size.preemptible for size in sizes)
        if spot and "spot" not in {one.text for one in classes}:
            return Found(
                f"{text}, never as a spot instance", CheckStatus.FAILED, "take preemptible out"
            )
        return held_against(sizes, text, cores, ram_mb)

    def _image(self) -> Found:
        """Only told: EC2-like clouds boot images that they don't list."""
        image = self._template.image_id
        try:
            root = self._wire().call("DescribeImages", {"ImageId.1": image})
            state = self._texts(root, "imageState")
        except Refusal as refusal:
            return Found(
                f"{image}: {str(refusal)[:_KEPT]}",
                CheckStatus.WARNING,
                "correct [Cloud Create] image_id",
            )
        return Found(f"{image}: {state[0] if state else 'not listed'}")

    def _zone(self, zone: str) -> Found:
        """Whether the account has that zone; near names where it has not."""
        root = self._optional("DescribeAvailabilityZones", {})
        if isinstance(root, Found):
            return root
        pairs = zip(self._texts(root, "zoneName"), self._texts(root, "zoneState"), strict=False)
        states = dict(pairs)
        if zone not in states:
            text = f"{self._access.region} has no zone {zone}{did_you_mean(zone, [*states])}"
            return Found(text, CheckStatus.FAILED, f"name one of: {', '.join(sorted(states))}")
        state = states[zone]
        if state != "available":
            return Found(f"{zone} is {state}", CheckStatus.FAILED, "take another zone")
        return Found(f"{zone} is available")

    def _subnet(self, subnet: str) -> Found:
        root = self._optional("DescribeSubnets", {"SubnetId.1": subnet})
        if isinstance(root, Found):
            return root
        (free,) = self._texts(root, "availableIpAddressCount") or ["?"]
        (zone,) = self._texts(root, "availabilityZone") or ["?"]
        (vpc,) = self._texts(root, "vpcId") or ["?"]
        own = subnet == self._template.subnet_id
        wanted = self._template.availability_zone if own else None
        text = f"{subnet} in {zone} of {vpc}, {free} addresses free"
        if wanted and zone != wanted:
            return Found(
                f"{text}, but availability_zone = {wanted}",
                CheckStatus.FAILED,
                "leave one of them out",
            )
        if free == "0":
            return Found(text, CheckStatus.FAILED, "no node fits there: use another subnet")
        return Found(text)

    def _optional(self, action: str, params: Mapping[str, str]) -> Element | Found:
        """The answer, or what a refusal means for a call that only this pre-flight makes."""
        try:
            return self._wire().call(action, params)
        except Refusal as refusal:
            if refusal.code in UNAUTHORIZED:
                return Found(f"needs ec2:{action}", CheckStatus.NOT_ASKED, CHECK_POLICY)
            if refusal.code in NO_SUCH_ACTION:
                return Found(f"this API has no {action}", CheckStatus.NOT_ASKED)
            if ".NotFound" in refusal.code or ".Malformed" in refusal.code:
                return Found(
                    str(refusal)[:_KEPT], CheckStatus.FAILED, "give one of this region and account"
                )
            raise

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
