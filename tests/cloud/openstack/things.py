"""Ports, floating addresses, volumes and images of the OpenStack test server.

What it does follows the documents of neutron's, cinder's and glance's APIs.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from typing import Any

from tests.cloud.openstack.nova import Refused, Server

PORT, ADDRESS, VOLUME = "port", "floatingip", "volume"
ANY = 1_000_000
NETWORK = "11111111-1111-4111-8111-111111111111"
IMAGE = "22222222-2222-4222-8222-222222222222"


def neutron(status: int, kind: str, message: str) -> Refused:
    """Neutron's form of an error."""
    return Refused(status, {"NeutronError": {"type": kind, "message": message, "detail": ""}})


def page(status: int, text: str) -> Refused:
    """An error as the web framework of nova, glance and others words it."""
    return Refused(status, f"<html><head><title>{status}</title></head><body>{text}</body></html>")


def missing(kind: str, thing_id: str) -> Refused:
    if kind == VOLUME:
        message = f"Volume {thing_id} could not be found."
        return Refused(404, {"itemNotFound": {"code": 404, "message": message}})
    name = "PortNotFound" if kind == PORT else "FloatingIPNotFound"
    return neutron(404, name, f"{name.removesuffix('NotFound')} {thing_id} could not be found.")


class Things:
    """By kind and id, as the API shows them. `leaked` makes nova forget the ports it made.
    `guarded`: as in newer neutrons, a port of a server is not deleted for a project's member.

    `deletes` counts how often a volume is still told as `deleting` before it is gone.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self.all: dict[str, dict[str, dict[str, Any]]] = {PORT: {}, ADDRESS: {}, VOLUME: {}}
            self.networks = {NETWORK}
            self.images = {IMAGE: {"id": IMAGE, "name": "node-image", "status": "active"}}
            self.leaked = self.guarded = False
            self._nova_s: set[str] = set()
            self.deletes = 0
            self.max_limit = ANY

    def knows(self, kind: str, thing_id: str) -> bool:
        """Whether there is an image or a network of that id."""
        return thing_id in self.images if kind == "image" else thing_id in self.networks

    def booted(self, server: Server) -> None:
        """Nova makes a port of its own for each network."""
        asked = server.asked.get("networks", "auto")
        if asked == "none":
            return
        for _network in [{"uuid": NETWORK}] if asked == "auto" else asked:
            port = self.add(PORT, name="")
            self._nova_s.add(port)
            self._bind(port, server.id)

    def ended(self, server: Server) -> None:
        """Nova deletes the ports it made, gives back the others, and detaches the volumes."""
        with self._lock:
            for port in list(self.all[PORT].values()):
                if port["device_id"] != server.id:
                    continue
                if port["id"] in self._nova_s:
                    if not self.leaked:
                        self._drop(PORT, port["id"])
                else:
                    port["device_id"] = port["device_owner"] = ""
            for volume in self.all[VOLUME].values():
                if any(one["server_id"] == server.id for one in volume["attachments"]):
                    volume["attachments"], volume["status"] = [], "available"

    def add(self, kind: str, **fields: Any) -> str:
        """A new thing of that kind, used by nothing; its id."""
        thing_id = str(uuid.uuid4())
        made: dict[str, Any] = {"id": thing_id, "status": "DOWN", "tags": []}
        if kind == PORT:
            made |= {"name": "a port", "device_id": "", "device_owner": "", "network_id": NETWORK}
        elif kind == ADDRESS:
            made |= {"port_id": None, "floating_ip_address": "203.0.113.5", "description": ""}
        else:
            made |= {"status": "available", "attachments": [], "metadata": {}, "size": 1}
            del made["tags"]
        with self._lock:
            self.all[kind][thing_id] = made | fields
        return thing_id

    def attach(self, thing_id: str, server_id: str) -> None:
        """A port or a volume to a server, by another hand."""
        if thing_id in self.all[PORT]:
            self._bind(thing_id, server_id)
            return
        volume = self.all[VOLUME][thing_id]
        volume["attachments"] = [{"server_id": server_id, "volume_id": thing_id}]
        volume["status"] = "in-use"

    def _bind(self, port_id: str, server_id: str) -> None:
        port = self.all[PORT][port_id]
        port["device_id"], port["device_owner"] = server_id, "compute:nova"

    # The API.

    def list(self, kind: str, query: Mapping[str, str]) -> Any:
        with self._lock:
            found = [
                dict(one)
                for one in self.all[kind].values()
                if all(str(one.get(k)) == query[k] for k in ("device_id", "port_id") if k in query)
            ]
            # Without a limit, asked for or set, neutron pages nothing and reads no marker.
            pages = kind == VOLUME or "limit" in query or self.max_limit < ANY
            if pages and (marker := query.get("marker")):
                ids = [one["id"] for one in found]
                if marker in ids:
                    found = found[ids.index(marker) + 1 :]
                elif kind != ADDRESS:
                    # Neutron begins anew with the addresses.
                    raise missing(kind, marker)
            limit = min(int(query.get("limit", self.max_limit)), self.max_limit)
            return {f"{kind}s": found[:limit]}

    def show(self, kind: str, thing_id: str) -> Any:
        with self._lock:
            if thing_id not in self.all[kind]:
                raise missing(kind, thing_id)
            thing = self.all[kind][thing_id]
            if thing["status"] == "deleting":
                self.deletes -= 1
                if self.deletes < 0:
                    self._drop(kind, thing_id)
                    raise missing(kind, thing_id)
            return {kind: dict(thing)}

    def delete(self, kind: str, thing_id: str) -> None:
        with self._lock:
            if thing_id not in self.all[kind]:
                raise missing(kind, thing_id)
            thing = self.all[kind][thing_id]
            if kind == VOLUME:
                if thing["status"] not in ("available", "error"):
                    message = (
                        "Invalid volume: Volume status must be available or error or "
                        "error_restoring or error_extending or error_managing"
                    )
                    raise Refused(400, {"badRequest": {"code": 400, "message": message}})
                thing["status"] = "deleting"
                return
            if self.guarded and str(thing.get("device_owner")).startswith("compute:"):
                message = "rule:delete_port is disallowed by policy"
                raise neutron(403, "PolicyNotAuthorized", message)
            self._drop(kind, thing_id)

    def image(self, image_id: str) -> Any:
        if image_id not in self.images:
            # Glance answers with a page of HTML.
            raise page(404, f"No image found with ID {image_id}")
        return self.images[image_id]

    def list_images(self, query: Mapping[str, str]) -> Any:
        found = [one for one in self.images.values() if query.get("name") in (None, one["name"])]
        return {"images": found, "schema": "/v2/schemas/images", "first": "/v2/images"}

    def _drop(self, kind: str, thing_id: str) -> None:
        del self.all[kind][thing_id]
        if kind == PORT:
            for address in self.all[ADDRESS].values():
                if address["port_id"] == thing_id:
                    address["port_id"] = None
