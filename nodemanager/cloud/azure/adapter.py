"""The adapter for Microsoft Azure, over apache-libcloud's driver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from libcloud.compute.base import NodeDriver
from libcloud.compute.drivers.azure_arm import AzureNodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.azure import options
from nodemanager.cloud.azure.access import Access
from nodemanager.cloud.azure.checks import AzureChecks
from nodemanager.cloud.azure.errors import Refusal
from nodemanager.cloud.azure.leftovers import AzureLeftovers
from nodemanager.cloud.azure.node import (
    CREATING,
    DELETING,
    FAILED,
    LATEST,
    READER,
    VirtualMachine,
    azure_tags,
    exact_image,
    tags_in,
)
from nodemanager.cloud.azure.options import Template
from nodemanager.cloud.azure.order import machine_body, machine_name
from nodemanager.cloud.azure.sign_in import EntraSignIn
from nodemanager.cloud.azure.wire import COMPUTE, RESOURCES, AzureAnswers, Wire, is_done
from nodemanager.cloud.checks import Check, Wanted
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, connected, load_driver_class
from nodemanager.cloud.provider import GoesOn, Provider
from nodemanager.cloud.reading import checked_list, chosen, remember, size_table
from nodemanager.cloud.transport import TokenSource
from nodemanager.core.model.world import Outcome, Size, Tags
from nodemanager.errors import BadRequest, CloudError, ForeignAnswer, MalformedId, Unauthorized

# Which image nodes boot from: an image of the marketplace, or one of the operator's own.

GALLERIES = "2024-03-03"


def check_image(wire: Wire, access: Access, template: Template) -> None:
    """Raises BadRequest where Azure says that there is no such image. Passes where the role has no
    right to ask, and for the galleries of others, which only a create can use for sure."""
    image = template.image
    newest = image.get("version") == LATEST
    if "publisher" in image:
        path = _versions(wire, access, image)
        # The newest version has no entry of its own.
        path += "" if newest else f"/{image['version']}"
        version = COMPUTE
    elif "id" in image:
        path = image["id"]
        version = GALLERIES if "/galleries/" in path.lower() else COMPUTE
    else:
        return
    missing = f"[Cloud Create] image = {':'.join(image.values())}: Azure has no such image"
    try:
        answer = wire.call("GET", path, version, bare_list=newest).content
    except Refusal as refusal:
        if refusal.status == 404:
            raise BadRequest(f"{missing}: {refusal}") from None
        if refusal.meaning is not Unauthorized:
            raise
        return
    if answer.get("value") == []:
        raise BadRequest(missing)


def image_id(wire: Wire, access: Access, template: Template) -> str | None:
    """What a machine created now boots from, as `exact_image` writes it; None where it can't be
    found out, as of the newest version in a gallery of others.

    Asks only for what means the newest version, once.
    """
    image = template.image
    known = exact_image(image)
    if known is not None:
        return known
    if "publisher" in image:
        answer = wire.call("GET", _versions(wire, access, image), COMPUTE, bare_list=True).content
        found = [str(one.get("name")) for one in answer.get("value") or []]
    elif "id" in image:
        gallery = re.sub("(?i)(/versions/latest)?/?$", "", image["id"])
        found = list(_usable(wire.listed(f"{gallery}/versions", GALLERIES), access.region))
    else:
        return None
    newest = max((one for one in found if _numbers(one)), key=_numbers, default=None)
    return None if newest is None else exact_image(image, newest)


def _versions(wire: Wire, access: Access, image: Mapping[str, str]) -> str:
    return (
        f"{wire.subscription}/providers/Microsoft.Compute/locations/{access.region}"
        f"/publishers/{image['publisher']}/artifacttypes/vmimage/offers/{image['offer']}"
        f"/skus/{image['sku']}/versions"
    )


def _usable(versions: list[Any], region: str) -> Iterator[str]:
    """The names of a gallery image's versions that may be the newest one in that region."""
    for one in versions:
        about = one.get("properties") or {}
        profile = about.get("publishingProfile") or {}
        here = [
            target
            for target in profile.get("targetRegions") or []
            if str(target.get("name")).replace(" ", "").lower() == region.lower()
        ]
        hidden = [profile, *here]
        is_hidden = any(target.get("excludeFromLatest") is True for target in hidden)
        if here and not is_hidden and about.get("provisioningState") == "Succeeded":
            yield str(one.get("name"))


def _numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, by which Azure finds the newest; () for what is no version."""
    return tuple(map(int, version.split("."))) if re.fullmatch(r"\d+(\.\d+)*", version) else ()


TAGS = "2021-04-01"
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Azure(Provider):
    """Azure: libcloud's connection sends the requests, this class checks answers (L2)."""

    name = "azure"
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True

    access: Access
    pool: str
    listed: Mapping[str, str]
    template: Template
    driver_type: type[AzureNodeDriver]
    _names: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    """The name of each machine seen, by id: an id alone leads to no machine."""
    _image_seen: bool = field(default=False, init=False)

    def new_driver(self) -> NodeDriver:
        access = self.access
        return self.driver_type(
            "unset", access.subscription, "unset", "unset", timeout=access.timeout
        )

    def wire(self, driver: NodeDriver) -> Wire:
        return Wire(driver.connection, self.access)

    def account(self, driver: NodeDriver) -> str:
        """The subscription, its directory, the resource group and the endpoint. Every request names
        the subscription and the group, so other credentials never lead to others."""
        access, wire = self.access, self.wire(driver)
        found = wire.get(wire.subscription, RESOURCES)
        tenant = found.get("tenantId")
        if access.tenant and "." not in access.tenant and tenant != access.tenant.lower():
            raise ForeignAnswer(f"subscription {access.subscription} is of directory {tenant}")
        return (
            f"subscription={access.subscription} tenant={tenant} group={access.group.lower()} "
            f"endpoint={access.endpoint}"
        )

    def listings(self, driver: NodeDriver) -> Sequence[tuple[object, bool]]:
        """Azure has no filter by tag, so one list of the group's machines answers both."""
        found = self._seen(self.wire(driver).machines())
        ours = chosen(found, self._is_ours, unread=True)
        answers: list[tuple[object, bool]] = [(ours, False)]
        if self.listed:
            wanted = self.listed.items()
            answers.append((chosen(found, lambda one: wanted <= one.tags.items(), False), True))
        return answers

    def by_record(self, driver: NodeDriver, record_uuid: str) -> object:
        return self._seen(self.wire(driver).machines())

    def by_id(self, driver: NodeDriver, node_id: str) -> VirtualMachine | None:
        """The machine of that id, in any state: asked for by its name where that is known, else
        searched for among the group's machines."""
        if not _ID.fullmatch(node_id):
            raise MalformedId(f"{node_id[:80]!r} is no machine's vmId, which is a UUID")
        wire = self.wire(driver)
        name = self._names.get(node_id)
        if name is not None:
            found = wire.machine(name)
            if found is None or found.id == node_id:
                return found
            # Another hand gave the name to a new machine.
        every = self._seen(wire.machines())
        return next((one for one in every if one.id == node_id), None)

    def sizes(self, driver: NodeDriver) -> tuple[Size, ...]:
        return size_table("nodemanager.cloud.azure")

    def check_image(self, driver: NodeDriver) -> None:
        if not self._image_seen:
            check_image(self.wire(driver), self.access, self.template)
            self._image_seen = True

    def image(self, driver: NodeDriver) -> str | None:
        return image_id(self.wire(driver), self.access, self.template)

    def create(self, driver: NodeDriver, order: CreateOrder) -> object:
        """The machine's name has the incarnation in it: a repeated create makes no second one."""
        wire = self.wire(driver)
        incarnation = order.tags.incarnation or order.client_token
        name = machine_name(order.name, incarnation, order.place)
        body = machine_body(order, self.template, name, self.access.region)
        try:
            begun = wire.call(
                "PUT",
                wire.machine_path(name),
                COMPUTE,
                body=body,
                headers={"If-None-Match": "*"},
            )
        except Refusal as refusal:
            if refusal.is_taken:
                return self._made_before(wire, name, order.tags, refusal)
            raise
        made = VirtualMachine.of(begun.content)
        self._seen([made])
        link = begun.headers.get("azure-asyncoperation")
        return made if link is None else GoesOn(made, json.dumps({"name": name, "link": link}))

    def finish(self, driver: NodeDriver, pending: str) -> str | Refusal | None:
        """By the operation, or by the machine where nobody knows it; and by why it failed
        once that is told.

        Azure keeps what is left of a machine whose create failed. Where the failure's code says
        that it never ran, it is deleted, and the failure is told once it is gone: it has the node's
        tags. A failure with another code says nothing about that.
        """
        wire, known = self.wire(driver), json.loads(pending)
        failure = Refusal(known["code"], known["message"], 500) if "code" in known else None
        if "link" not in known and failure is None:
            return _ended(wire.machine(known["name"]), pending)
        if failure is None:
            operation = wire.operation(known["link"])
            try:
                return None if is_done(operation) else pending
            except Refusal as refusal:
                failure = refusal
        left = wire.machine(known["name"])
        if left is None or failure.meaning is CloudError:
            return failure
        if left.state not in (FAILED, DELETING):
            # It runs, whatever its operation says.
            return None
        if left.state == FAILED:
            wire.call("DELETE", wire.machine_path(known["name"]), COMPUTE)
        # The message may quote the order; the text is kept in the journal.
        failure.hide(())
        said = {"code": failure.code, "message": failure.message}
        return json.dumps({"name": known["name"], **said})

    def _made_before(self, wire: Wire, name: str, tags: Tags, refusal: Refusal) -> object:
        made = wire.machine(name)
        if made is None or tags_in(made.tags) != tags:
            raise refusal
        self._seen([made])
        goes_on = made.provisioning == CREATING
        return GoesOn(made, json.dumps({"name": name})) if goes_on else made

    def adopt(self, driver: NodeDriver, node_id: str, tags: Tags) -> None:
        node = self.by_id(driver, node_id)
        if node is None:
            raise BadRequest(f"there is no machine {node_id} in {self.access.group}")
        given = azure_tags(tags)
        answer = self.wire(driver).call(
            "PATCH",
            f"{node.path}/providers/Microsoft.Resources/tags/default",
            TAGS,
            body={"operation": "Merge", "properties": {"tags": given}},
        )
        if answer.status == 202:
            raise CloudError(f"the tags of {node_id} are not set yet")
        kept = (answer.content.get("properties") or {}).get("tags")
        if not isinstance(kept, dict) or not given.items() <= kept.items():
            raise ForeignAnswer(f"the answer to tagging {node_id} does not show our tags")

    def destroy(self, driver: NodeDriver, node_id: str) -> Outcome:
        """Azure never says that a machine is gone: it does not know it any more (D3)."""
        node = self.by_id(driver, node_id)
        if node is None:
            return Outcome.UNKNOWN
        answer = self.wire(driver).call("DELETE", node.path, COMPUTE)
        # 204 says that there was no machine.
        return Outcome.UNKNOWN if answer.status == 204 else Outcome.ACCEPTED

    def preflight(self, driver: NodeDriver, wanted: Wanted) -> Sequence[Check]:
        return AzureChecks(wanted, lambda: self.wire(driver), self.access, self.template).all()

    def _seen(self, found: list[VirtualMachine]) -> list[VirtualMachine]:
        """The same machines, whose names are known from now on."""
        remember(self._names, checked_list(found, "list machines"), attrgetter("own_name"))
        return found

    def _is_ours(self, one: VirtualMachine) -> bool:
        """What is no machine may be ours, too: the reader tells it."""
        return not one.id or tags_in(one.tags).pool == self.pool


def _ended(made: VirtualMachine | None, pending: str) -> str | Refusal | None:
    """How a create ended whose operation nobody knows; `pending` while it goes on."""
    if made is not None and made.provisioning == CREATING:
        return pending
    if made is None or made.state == FAILED:
        return Refusal("", "the create failed, and the reason is in Azure's activity log", 500)
    return None


def build_cloud(config: CloudConfig, *, timeout: float = TIMEOUT) -> LibcloudCloud:
    """A CloudDriver for Microsoft Azure.

    `timeout` is in seconds and applies to each HTTP request. Raises ConfigError with every problem
    of the three sections.
    """
    own = load_driver_class(config.driver_class, AzureNodeDriver)
    access, listed, template = options.read(config, timeout)
    pool = config.pool
    signs_in = EntraSignIn(
        access.principal, access.client_id, access.login, access.scope, access.timeout
    )
    tokens = TokenSource(signs_in)
    driver_type = connected(own, AzureAnswers, endpoint=access.endpoint, tokens=tokens)
    azure = Azure(access, pool, listed, template, driver_type)
    leftovers = AzureLeftovers(pool, azure.wire, azure.by_id)
    return LibcloudCloud(config, azure, READER, leftovers, timeout=access.timeout)
