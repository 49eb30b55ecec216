"""What a project of Google Compute Engine holds, and how its operations change it."""

from __future__ import annotations

import copy
import itertools
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

NAME, NUMBER = "some-project", "345678901234"
ZONES = ("us-central1-a", "us-central1-b", "europe-west4-a")
REGIONS = ("us-central1", "europe-west4")
MACHINES = {
    "e2-micro": (2, 1024),
    "n1-standard-1": (1, 3840),
    "n1-standard-2": (2, 7680),
    "n2-standard-4": (4, 16384),
}
IMAGES = {
    "debian-cloud": {"debian-12-bookworm-v20260901": "debian-12"},
    "ubuntu-os-cloud": {"ubuntu-2404-noble-amd64-v20260901": "ubuntu-2404-lts-amd64"},
    NAME: {"our-node-7": "our-node"},
}
"""Names of images and their families, by project."""

Resource = dict[str, Any]


class Refused(Exception):
    """An error answer, with the reason that Google's API gives."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def not_found(what: str) -> Refused:
    return Refused(404, "notFound", f"The resource '{what}' was not found")


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@dataclass
class Pending:
    """An operation under way: at `due` it becomes DONE, and `effect` happens unless it fails."""

    operation: Resource
    due: float
    effect: Callable[[], None]
    undo: Callable[[], None]
    failure: tuple[str, str] | None = None


@dataclass
class Project:
    """`takes` is how many seconds an operation is under way at the least; it becomes DONE with a
    request after that. `next_fails` are the code and message that the next inserts fail with."""

    root: str
    takes: float = 0.0
    instances: dict[tuple[str, str], Resource] = field(default_factory=dict)
    disks: dict[tuple[str, str], Resource] = field(default_factory=dict)
    images: dict[str, dict[str, str]] = field(default_factory=lambda: copy.deepcopy(IMAGES))
    """As IMAGES: families by the names of images, the oldest first, by project."""
    operations: dict[tuple[str, str], Resource] = field(default_factory=dict)
    pending: list[Pending] = field(default_factory=list)
    next_fails: list[tuple[str, str]] = field(default_factory=list)
    unreachable: set[str] = field(default_factory=set)
    _requests: dict[str, tuple[str, Resource]] = field(default_factory=dict)
    _ids: Any = field(default_factory=lambda: itertools.count(4_000_000_000_000_000_001))

    def link(self, path: str, project: str = NAME) -> str:
        return f"{self.root}/compute/v1/projects/{project}/{path}"

    def settle(self) -> None:
        """Operations that are due are done."""
        now = time.monotonic()
        for one in [one for one in self.pending if one.due <= now]:
            self.pending.remove(one)
            one.operation.update(status="DONE", progress=100, endTime=stamp(time.time()))
            if one.failure is None:
                one.effect()
                continue
            code, message = one.failure
            one.operation.update(
                error={"errors": [{"code": code, "message": message}]},
                httpErrorStatusCode=503,
                httpErrorMessage="SERVICE UNAVAILABLE",
            )
            one.undo()

    def once(self, request_id: str | None, asked: object, work: Callable[[], Resource]) -> Resource:
        """The operation that `work` begins, or the one that this request id began."""
        if request_id is None:
            return work()
        try:
            fine = uuid.UUID(request_id).int != 0
        except ValueError:
            fine = False
        if not fine:
            raise Refused(400, "invalid", "Invalid value for field 'requestId'")
        print_of = json.dumps(asked, sort_keys=True)
        if request_id in self._requests:
            before, operation = self._requests[request_id]
            if before != print_of:
                raise Refused(400, "invalid", "The request id was used for another request")
            return operation
        operation = work()
        self._requests[request_id] = print_of, operation
        return operation

    # Instances.

    def instance(self, zone: str, key: str) -> Resource:
        """By name or number."""
        self._check_zone(zone)
        for (place, name), one in self.instances.items():
            if place == zone and key in (name, one["id"]):
                return one
        raise not_found(f"projects/{NAME}/zones/{zone}/instances/{key}")

    def insert(self, zone: str, body: Mapping[str, Any]) -> Resource:
        self._check_zone(zone)
        given: Resource = copy.deepcopy(dict(body))
        name = given["name"]
        if (zone, name) in self.instances:
            raise Refused(409, "alreadyExists", f"The resource 'instances/{name}' already exists")
        machine = given.get("machineType", "").rpartition("/")[2]
        if machine not in MACHINES and "custom" not in machine:
            raise Refused(400, "invalid", f"Invalid value for field 'machineType': '{machine}'")
        for label, value in given.get("labels", {}).items():
            if not plain(label) or not (value == "" or plain(value)):
                raise Refused(400, "invalid", f"Invalid label {label}={value}")
        made = {
            "kind": "compute#instance",
            "id": str(next(self._ids)),
            "creationTimestamp": stamp(time.time()),
            **given,
            "zone": self.link(f"zones/{zone}"),
            "machineType": self.link(f"zones/{zone}/machineTypes/{machine}"),
            "selfLink": self.link(f"zones/{zone}/instances/{name}"),
            "status": "PROVISIONING",
            "labelFingerprint": "bGFiZWwtMQ==",
            "networkInterfaces": self._interfaces(given.get("networkInterfaces", [])),
        }
        made.setdefault("tags", {"items": []})["fingerprint"] = "dGFncw=="
        made.setdefault("metadata", {"items": []})["fingerprint"] = "bWV0YS0x"
        made["disks"] = [self._new_disk(zone, name, one) for one in given.get("disks", [])]
        self.instances[zone, name] = made
        failure = self.next_fails.pop(0) if self.next_fails else None

        def runs() -> None:
            made.update(status="RUNNING", lastStartTimestamp=stamp(time.time()))

        return self._begin(
            zone, "insert", made, runs, undo=lambda: self._end(zone, name, made), failure=failure
        )

    def delete(self, zone: str, key: str) -> Resource:
        one = self.instance(zone, key)
        one["status"] = "STOPPING"
        return self._begin(zone, "delete", one, lambda: self._end(zone, one["name"], one))

    def stop(self, zone: str, key: str) -> Resource:
        one = self.instance(zone, key)
        one["status"] = "STOPPING"
        return self._begin(zone, "stop", one, lambda: one.update(status="TERMINATED"))

    def set_labels(self, zone: str, key: str, body: Mapping[str, Any]) -> Resource:
        one = self.instance(zone, key)
        if body.get("labelFingerprint") != one["labelFingerprint"]:
            raise Refused(412, "conditionNotMet", "Labels fingerprint either invalid or outdated")
        labels = dict(body.get("labels", {}))
        new = f"bGFiZWwt{next(self._ids) % 100:02}=="

        def change() -> None:
            one.update(labels=labels, labelFingerprint=new)

        return self._begin(zone, "setLabels", one, change)

    def attach(self, zone: str, key: str, body: Mapping[str, Any]) -> Resource:
        one = self.instance(zone, key)
        place = body.get("source", "").rpartition("/zones/")[2].split("/")
        if len(place) != 3 or (place[0], place[2]) not in self.disks:
            raise not_found(str(body.get("source")))
        disk = self.disks[place[0], place[2]]
        attached = {
            "type": "PERSISTENT",
            "mode": "READ_WRITE",
            "boot": False,
            "autoDelete": False,
            "index": len(one["disks"]),
            **body,
            "source": disk["selfLink"],
        }

        def change() -> None:
            one["disks"].append(attached)
            disk.setdefault("users", []).append(one["selfLink"])

        return self._begin(zone, "attachDisk", one, change)

    # Disks.

    def disk(self, zone: str, name: str) -> Resource:
        self._check_zone(zone)
        if (zone, name) not in self.disks:
            raise not_found(f"projects/{NAME}/zones/{zone}/disks/{name}")
        return self.disks[zone, name]

    def insert_disk(self, zone: str, body: Mapping[str, Any]) -> Resource:
        self._check_zone(zone)
        if (zone, body["name"]) in self.disks:
            raise Refused(409, "alreadyExists", f"The resource '{body['name']}' already exists")
        made = self._disk(zone, body["name"], body.get("labels", {}), body.get("sizeGb", "10"))
        return self._begin(zone, "insert", made, lambda: None)

    def delete_disk(self, zone: str, name: str) -> Resource:
        one = self.disk(zone, name)
        if one.get("users"):
            raise Refused(
                400, "resourceInUseByAnotherResource", f"The disk '{name}' is already being used"
            )
        one["status"] = "DELETING"
        return self._begin(zone, "delete", one, lambda: self.disks.pop((zone, name), None))

    # What only the owner of the test's world does.

    def put(self, node_id: str, status: str) -> None:
        """Bring an instance into that status, as Google or another hand would."""
        self.settle()
        for one in self.instances.values():
            if one["id"] == node_id:
                one["status"] = status
                return
        raise KeyError(node_id)

    def _check_zone(self, zone: str) -> None:
        if zone not in ZONES:
            raise not_found(f"projects/{NAME}/zones/{zone}")
        if zone in self.unreachable:
            raise Refused(503, "backendError", f"{zone} can't be reached")

    def _new_disk(self, zone: str, name: str, asked: Resource) -> Resource:
        how = asked.pop("initializeParams", {})
        attached = {"mode": "READ_WRITE", "type": "PERSISTENT", "autoDelete": False, **asked}
        if attached["type"] == "SCRATCH":
            return attached
        own = how.get("diskName") or (name if asked.get("boot") else f"{name}-{len(self.disks)}")
        if (zone, own) in self.disks:
            raise Refused(409, "alreadyExists", f"The resource 'disks/{own}' already exists")
        if "sourceImage" in how:
            image = self.image_of(how["sourceImage"])
        disk = self._disk(zone, own, how.get("labels", {}), how.get("diskSizeGb", "10"))
        if "sourceImage" in how:
            disk |= {"sourceImage": image["selfLink"], "sourceImageId": image["id"]}
        disk["users"] = [self.link(f"zones/{zone}/instances/{name}")]
        return {**attached, "source": disk["selfLink"], "diskSizeGb": disk["sizeGb"]}

    def image_of(self, link: str) -> Resource:
        """The image that a boot from that link uses: of a family the newest one."""
        steps = link.rpartition("projects/")[2].split("/")
        return self.image(
            steps[0] if "projects/" in link else NAME,
            **{"family" if "family" in steps else "name": steps[-1]},
        )

    def image(
        self, project: str, *, name: str | None = None, family: str | None = None
    ) -> Resource:
        """The image of that name, or the newest of that family."""
        every = list(self.images.get(project, {}).items())
        first = 7_000 + 100 * (list(self.images).index(project) if every else 0)
        for number, (own, of) in reversed(list(enumerate(every))):
            if name == own or family == of:
                return {
                    "kind": "compute#image",
                    "id": str(first + number),
                    "diskSizeGb": "10",
                    "architecture": "X86_64",
                    "name": own,
                    "family": of,
                    "status": "READY",
                    "selfLink": self.link(f"global/images/{own}", project),
                }
        raise not_found(f"projects/{project}/global/images/{name or f'family/{family}'}")

    def _disk(self, zone: str, name: str, labels: Mapping[str, str], size: str) -> Resource:
        self.disks[zone, name] = {
            "kind": "compute#disk",
            "id": str(next(self._ids)),
            "creationTimestamp": stamp(time.time()),
            "name": name,
            "labels": dict(labels),
            "labelFingerprint": "ZGlzaw==",
            "sizeGb": size,
            "status": "READY",
            "zone": self.link(f"zones/{zone}"),
            "selfLink": self.link(f"zones/{zone}/disks/{name}"),
        }
        return self.disks[zone, name]

    def _interfaces(self, asked: list[Resource]) -> list[Resource]:
        number = len(self.instances) + 2
        return [
            {
                **one,
                "name": f"nic{position}",
                "networkIP": f"10.128.{position}.{number}",
                "accessConfigs": [
                    {**access, "natIP": f"203.0.113.{number}"}
                    for access in one.get("accessConfigs", [])
                ],
            }
            for position, one in enumerate(asked)
        ]

    def _end(self, zone: str, name: str, one: Resource) -> None:
        if self.instances.get((zone, name)) is not one:
            return
        del self.instances[zone, name]
        for attached in one["disks"]:
            link = attached.get("source", "")
            key = (zone, link.rpartition("/")[2])
            if attached["autoDelete"]:
                self.disks.pop(key, None)
            elif key in self.disks:
                users = self.disks[key].get("users", [])
                self.disks[key]["users"] = [user for user in users if user != one["selfLink"]]

    def _begin(
        self,
        zone: str,
        kind: str,
        target: Resource,
        effect: Callable[[], None],
        *,
        undo: Callable[[], None] = lambda: None,
        failure: tuple[str, str] | None = None,
    ) -> Resource:
        number = next(self._ids)
        name = f"operation-{number}"
        operation: Resource = {
            "kind": "compute#operation",
            "id": str(number),
            "name": name,
            "operationType": kind,
            "status": "PENDING" if self.takes else "RUNNING",
            "progress": 0,
            "targetId": target["id"],
            "targetLink": target["selfLink"],
            "zone": self.link(f"zones/{zone}"),
            "insertTime": stamp(time.time()),
            "user": "someone@example.iam.gserviceaccount.com",
            "selfLink": self.link(f"zones/{zone}/operations/{name}"),
        }
        self.operations[zone, name] = operation
        due = time.monotonic() + self.takes
        self.pending.append(Pending(operation, due, effect, undo, failure))
        return operation


def plain(text: str) -> bool:
    """Whether it is a label's key or value, as Google takes them."""
    fine = "abcdefghijklmnopqrstuvwxyz0123456789_-"
    return 0 < len(text) <= 63 and all(letter in fine for letter in text)
