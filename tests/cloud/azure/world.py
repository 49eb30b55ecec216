"""What a subscription of Azure holds, and how its operations change it."""

from __future__ import annotations

import copy
import itertools
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.cloud.azure.auth import SUBSCRIPTION

GROUP, OTHER_GROUP = "Nodes", "Others"
REGION = "eastus"
SIZES = {
    "Standard_D3": (4, 14, 200),
    "Standard_D2s_v5": (2, 8, 0),
    "Standard_D4s_v5": (4, 16, 0),
    "Standard_A1_v2": (1, 2, 10),
}
"""Cores, GiB of memory and of temporary disk."""
IMAGES = {
    "Canonical:ubuntu-24_04-lts:server:24.04.202609010",
    "Canonical:UbuntuServer:14.04.3-LTS:14.04.201508050",
}
ROOT = f"/subscriptions/{SUBSCRIPTION}"
HOME = f"{ROOT}/resourceGroups/{GROUP}"
SUBNET = f"{HOME}/providers/Microsoft.Network/virtualNetworks/Net/subnets/default"
OWN_IMAGE = f"{HOME}/providers/Microsoft.Compute/images/our-node"
GALLERY_IMAGE = f"{HOME}/providers/Microsoft.Compute/galleries/ours/images/node"
VMS, DISKS = "Microsoft.Compute/virtualMachines", "Microsoft.Compute/disks"
NICS, IPS = "Microsoft.Network/networkInterfaces", "Microsoft.Network/publicIPAddresses"
MOST_TAGS, LONGEST_TAG_NAME, LONGEST_TAG = 50, 512, 256

Resource = dict[str, Any]


class Refused(Exception):
    """An error answer, with the code that Azure's API gives."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def not_found(path: str) -> Refused:
    what = path.partition("/providers/")[2]
    text = f"The Resource '{what}' under resource group was not found."
    return Refused(404, "ResourceNotFound", text)


def stamp() -> str:
    # Azure's stamps have seven digits behind the second.
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "7+00:00"


@dataclass
class Operation:
    """At `due` it becomes Succeeded, and `effect` happens; or it fails, and `undo` happens."""

    id: str
    due: float
    effect: Callable[[], None]
    undo: Callable[[], None] = lambda: None
    failure: tuple[str, str] | None = None
    status: str = "InProgress"
    started: str = field(default_factory=stamp)


@dataclass
class World:
    """`takes` is how many seconds an operation is under way at the least. `create_fails` and
    `delete_fails` are the code and message that the next ones fail with, once they have begun."""

    takes: float = 0.0
    things: dict[str, Resource] = field(default_factory=dict)
    """Every resource by its id in lower case."""
    secrets: dict[str, str] = field(default_factory=dict)
    """The custom data of each machine, which no answer has, by vmId."""
    operations: dict[str, Operation] = field(default_factory=dict)
    create_fails: list[tuple[str, str]] = field(default_factory=list)
    delete_fails: list[tuple[str, str]] = field(default_factory=list)
    restricted: set[str] = field(default_factory=set)
    market: set[str] = field(default_factory=lambda: set(IMAGES))
    gallery: dict[str, bool] = field(default_factory=lambda: {"1.9.0": False, "1.10.0": False})
    """The versions of GALLERY_IMAGE, and whether each is excluded from the newest."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(4))

    def settle(self) -> None:
        """Operations that are due are done."""
        now = time.monotonic()
        for one in self.operations.values():
            if one.status != "InProgress" or one.due > now:
                continue
            if one.failure is None:
                one.status = "Succeeded"
                one.effect()
            else:
                one.status = "Failed"
                one.undo()

    def begin(self, effect: Callable[[], None], **rest: Any) -> Operation:
        made = Operation(str(uuid.uuid4()), time.monotonic() + self.takes, effect, **rest)
        self.operations[made.id] = made
        return made

    def get(self, path: str) -> Resource:
        found = self.things.get(path.lower())
        if found is None:
            raise not_found(path)
        return found

    def of(self, kind: str, under: str = ROOT) -> list[Resource]:
        """The resources of that kind in a group, or in the subscription."""
        middle = f"/providers/{kind}/".lower()
        return [
            one
            for path, one in sorted(self.things.items())
            if middle in path and path.startswith(f"{under}/".lower())
        ]

    def machine(self, node_id: str) -> Resource:
        return next(one for one in self.of(VMS) if one["properties"]["vmId"] == node_id)

    # Machines.

    def put_machine(
        self, path: str, body: Mapping[str, Any], *, only_new: bool
    ) -> tuple[Resource, Operation, bool]:
        """The machine, the operation, and whether it is a new one."""
        if (known := self.things.get(path.lower())) is not None:
            if only_new:
                raise Refused(412, "PreconditionFailed", "The resource already exists.")
            known["tags"] = dict(body.get("tags") or {})
            return known, self.begin(lambda: None), False
        given: Resource = copy.deepcopy(dict(body))
        about = given.get("properties") or {}
        self._check_machine(path, given, about)
        name = path.rpartition("/")[2]
        secret = about.get("osProfile", {}).pop("customData", "")
        node_id = str(uuid.uuid4())
        made: Resource = {
            "id": path,
            "name": name,
            "type": VMS,
            "location": given["location"],
            "tags": given.get("tags") or {},
            "properties": {
                **about,
                "vmId": node_id,
                "provisioningState": "Creating",
                "timeCreated": stamp(),
                "storageProfile": self._disks(path, about.get("storageProfile") or {}, given),
                "networkProfile": self._network(path, about.get("networkProfile") or {}, given),
            },
        }
        if "zones" in given:
            made["zones"] = given["zones"]
        self.things[path.lower()] = made
        self.secrets[node_id] = secret
        failure = self.create_fails.pop(0) if self.create_fails else None

        def runs() -> None:
            if made["properties"]["provisioningState"] == "Creating":
                self.put(node_id, "Succeeded", "PowerState/running")

        def fails() -> None:
            # One that was deleted meanwhile is not there to fail.
            if self.things.get(path.lower()) is made:
                self.put(node_id, "Failed", None)

        begun = self.begin(runs, undo=fails, failure=failure)
        return made, begun, True

    def _check_machine(self, path: str, given: Resource, about: Resource) -> None:
        name = path.rpartition("/")[2]
        if given.get("location") != REGION:
            raise Refused(400, "LocationNotAvailableForResourceType", str(given.get("location")))
        if not re.fullmatch(r"[A-Za-z0-9]([\w.-]{0,62}\w)?", name):
            raise Refused(400, "InvalidParameter", f"Resource name {name} is invalid.")
        size = (about.get("hardwareProfile") or {}).get("vmSize")
        if size not in SIZES:
            raise Refused(400, "InvalidParameter", f"The value {size} of vmSize is invalid.")
        if size in self.restricted:
            raise Refused(409, "SkuNotAvailable", f"The requested size {size} is not available.")
        self._check_tags(given.get("tags") or {})
        reference = (about.get("storageProfile") or {}).get("imageReference") or {}
        reference |= self._image_of(reference)
        system = about.get("osProfile") or {}
        keys = ((system.get("linuxConfiguration") or {}).get("ssh") or {}).get("publicKeys")
        if not system.get("adminUsername") or not (keys or system.get("adminPassword")):
            raise Refused(400, "InvalidParameter", "Required parameter 'adminPassword' is missing")
        if len(system.get("computerName") or "") > 64:
            raise Refused(400, "InvalidParameter", "Linux host name cannot exceed 64 characters")

    @staticmethod
    def _check_tags(tags: Mapping[str, str]) -> None:
        if len(tags) > MOST_TAGS:
            raise Refused(400, "TooManyTags", "a resource takes 50")
        for name, value in tags.items():
            if len(name) > LONGEST_TAG_NAME or any(sign in name for sign in "<>%&\\?/"):
                raise Refused(400, "InvalidTagNameCharacters", name)
            if len(value) > LONGEST_TAG:
                raise Refused(400, "InvalidTag", f"the value of {name} is too long")

    def _image_of(self, image: Mapping[str, str]) -> Resource:
        """What a machine tells of its image beside what was asked for: of an image with versions
        the one that it got."""
        wanted = image.get("id", "")
        if wanted == OWN_IMAGE:
            return {}
        if wanted.lower().startswith(GALLERY_IMAGE.lower()):
            asked = wanted.lower().partition("/versions/")[2] or "latest"
            found = [one for one, hidden in self.gallery.items() if not hidden]
            found = found if asked == "latest" else [one for one in self.gallery if one == asked]
        else:
            parts = [str(image.get(one)) for one in ("publisher", "offer", "sku", "version")]
            wanted, asked = ":".join(parts), parts[-1]
            found = [one for one in self.versions(*parts[:3]) if asked in ("latest", one)]
        if not found:
            raise Refused(404, "PlatformImageNotFound", f"The image '{wanted}' not found.")
        return {"exactVersion": max(found, key=lambda one: [int(n) for n in one.split(".")])}

    def versions(self, *sku: str) -> list[str]:
        """The versions of what a publisher has, of no order that means anything."""
        begin = ":".join(sku) + ":"
        every = sorted(self.market)
        return [one.removeprefix(begin) for one in every if one.startswith(begin)]

    def _disks(self, path: str, asked: Resource, given: Resource) -> Resource:
        """The machine's disks, which get its tags."""
        home, _, _ = path.partition("/providers/")
        for number, one in enumerate((asked.get("osDisk") or {}, *(asked.get("dataDisks") or []))):
            own = one.get("name") or f"{path.rpartition('/')[2]}_disk{number}_{next(self._numbers)}"
            disk = f"{home}/providers/{DISKS}/{own}"
            if disk.lower() in self.things:
                raise Refused(409, "ConflictingUserInput", f"Disk {own} already exists in {home}.")
            one.update(name=own, managedDisk={**one.get("managedDisk", {}), "id": disk})
            one.setdefault("deleteOption", "Detach")
            self.add_disk(disk, given.get("tags") or {}, path)
        return asked

    def _network(self, path: str, asked: Resource, given: Resource) -> Resource:
        """The machine's interfaces: those named, and those that are made with it."""
        found = []
        for one in asked.get("networkInterfaces") or []:
            self.get(one["id"])["properties"]["virtualMachine"] = {"id": path}
            found.append({"properties": {"deleteOption": "Detach", "primary": True}, **one})
        for one in asked.get("networkInterfaceConfigurations") or []:
            about = one["properties"]
            nic = self._interface(path, one)
            option = about.get("deleteOption", "Detach")
            found.append({"id": nic, "properties": {"primary": True, "deleteOption": option}})
        if not found:
            raise Refused(400, "InvalidParameter", "Required parameter 'networkInterfaces'.")
        return {"networkInterfaces": found}

    def _interface(self, path: str, asked: Resource) -> str:
        home, _, _ = path.partition("/providers/")
        nic = f"{home}/providers/{NICS}/{asked['name']}"
        settings = []
        for one in asked["properties"]["ipConfigurations"]:
            about, setting = one["properties"], f"{nic}/ipConfigurations/{one['name']}"
            if about["subnet"]["id"].lower() != SUBNET.lower():
                raise Refused(400, "InvalidResourceReference", f"{about['subnet']['id']} not found")
            address: Resource = {"subnet": about["subnet"], "primary": True}
            address["privateIPAddress"] = f"10.0.0.{next(self._numbers)}"
            if (public := about.get("publicIPAddressConfiguration")) is not None:
                ip = f"{home}/providers/{IPS}/{public['name']}"
                self.add_address(ip, public.get("tags") or {}, setting)
                option = public["properties"].get("deleteOption", "Detach")
                address["publicIPAddress"] = {"id": ip, "properties": {"deleteOption": option}}
            settings.append({"id": setting, "name": one["name"], "properties": address})
        self.things[nic.lower()] = {
            "id": nic,
            "name": asked["name"],
            "type": NICS,
            "location": REGION,
            "tags": asked.get("tags") or {},
            "properties": {
                "provisioningState": "Succeeded",
                "virtualMachine": {"id": path},
                "ipConfigurations": settings,
            },
        }
        return nic

    def delete_machine(self, path: str) -> Operation:
        one = self.get(path)
        one["properties"]["provisioningState"] = "Deleting"
        failure = self.delete_fails.pop(0) if self.delete_fails else None

        def stays() -> None:
            one["properties"]["provisioningState"] = "Failed"

        return self.begin(lambda: self.end(path), undo=stays, failure=failure)

    def end(self, path: str) -> None:
        one = self.things.pop(path.lower(), None)
        if one is None:
            return
        about = one["properties"]
        for disk in (about["storageProfile"]["osDisk"], *about["storageProfile"]["dataDisks"]):
            key = disk["managedDisk"]["id"].lower()
            if disk["deleteOption"] == "Delete":
                self.things.pop(key, None)
            elif key in self.things:
                self.things[key].pop("managedBy", None)
                self.things[key]["properties"]["diskState"] = "Unattached"
        for one in about["networkProfile"]["networkInterfaces"]:
            key = one["id"].lower()
            if one["properties"]["deleteOption"] == "Delete":
                self.drop_interface(key)
            elif key in self.things:
                self.things[key]["properties"].pop("virtualMachine", None)

    def drop_interface(self, path: str) -> None:
        one = self.things.pop(path.lower(), None)
        for setting in one["properties"]["ipConfigurations"] if one else []:
            address = setting["properties"].get("publicIPAddress")
            key = address["id"].lower() if address else ""
            if key and (address.get("properties") or {}).get("deleteOption") == "Delete":
                self.things.pop(key, None)
            elif key in self.things:
                self.things[key]["properties"].pop("ipConfiguration", None)

    def power(self, path: str, during: str, after: str) -> Operation:
        """Stop, deallocate or start a machine."""
        one = self.get(path)
        node_id = one["properties"]["vmId"]
        self.put(node_id, "Updating", during)
        return self.begin(lambda: self.put(node_id, "Succeeded", after))

    # Things by themselves.

    def add_disk(self, path: str, tags: Mapping[str, str], used_by: str = "") -> Resource:
        made: Resource = {
            "id": path,
            "name": path.rpartition("/")[2],
            "type": DISKS,
            "location": REGION,
            "tags": dict(tags),
            "properties": {
                "provisioningState": "Succeeded",
                "diskState": "Attached" if used_by else "Unattached",
                "creationData": {"createOption": "Empty"},
                "diskSizeGB": 30,
            },
        }
        if used_by:
            made["managedBy"] = used_by
        self.things[path.lower()] = made
        return made

    def add_address(self, path: str, tags: Mapping[str, str], used_by: str = "") -> Resource:
        about: Resource = {
            "provisioningState": "Succeeded",
            "publicIPAllocationMethod": "Static",
            "ipAddress": f"203.0.113.{next(self._numbers)}",
        }
        if used_by:
            about["ipConfiguration"] = {"id": used_by}
        self.things[path.lower()] = {
            "id": path,
            "name": path.rpartition("/")[2],
            "type": IPS,
            "location": REGION,
            "sku": {"name": "Standard"},
            "tags": dict(tags),
            "properties": about,
        }
        return self.things[path.lower()]

    def add_interface(self, path: str, tags: Mapping[str, str], used_by: str = "") -> Resource:
        about = {
            "provisioningState": "Succeeded",
            "ipConfigurations": [
                {"name": "ip", "properties": {"subnet": {"id": SUBNET}, "primary": True}}
            ],
        }
        if used_by:
            about["virtualMachine"] = {"id": used_by}
        self.things[path.lower()] = {
            "id": path,
            "name": path.rpartition("/")[2],
            "type": NICS,
            "location": REGION,
            "tags": dict(tags),
            "properties": about,
        }
        return self.things[path.lower()]

    def delete_thing(self, kind: str, path: str) -> Operation:
        one = self.get(path)
        about = one["properties"]
        if kind == DISKS and one.get("managedBy"):
            text = f"Disk {one['name']} is attached to VM {one['managedBy']}."
            raise Refused(409, "OperationNotAllowed", text)
        if kind == NICS and about.get("virtualMachine"):
            raise Refused(400, "NicInUse", f"Network Interface {path} is used by existing resource")
        if kind == IPS and about.get("ipConfiguration"):
            raise Refused(400, "PublicIPAddressCannotBeDeleted", f"{path} is still allocated")
        about["provisioningState"] = "Deleting"
        if kind == NICS:
            return self.begin(lambda: self.drop_interface(path))
        return self.begin(lambda: self.things.pop(path.lower(), None) and None)

    def merge_tags(self, path: str, tags: Mapping[str, str]) -> Resource:
        one = self.get(path)
        self._check_tags({**one["tags"], **tags})
        one["tags"] = {**one["tags"], **tags}
        return one

    # What only the owner of the test's world does.

    def put(self, node_id: str, provisioning: str, power: str | None) -> None:
        """Bring a machine into that state, as Azure or another hand would."""
        self.settle()
        about = self.machine(node_id)["properties"]
        about["provisioningState"] = provisioning
        level = {"level": "Info", "displayStatus": "x"}
        statuses = [{"code": f"ProvisioningState/{provisioning.lower()}", **level}]
        if power is not None:
            statuses.append({"code": power, **level})
        about["instanceView"] = {"statuses": statuses}

    def evict(self, node_id: str) -> None:
        """Azure takes a Spot machine away, as its create ordered."""
        one = self.machine(node_id)
        if one["properties"].get("evictionPolicy") == "Delete":
            self.delete_machine(one["id"])
        else:
            self.power(one["id"], "PowerState/deallocating", "PowerState/deallocated")
