"""The adapter for libvirt: nodes are domains of one hypervisor, over libcloud's driver."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any
from uuid import UUID, uuid5
from xml.etree import ElementTree

from libcloud.compute.drivers.libvirt_driver import LibvirtNodeDriver

from nodemanager.cloud.api import CreateOrder
from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from nodemanager.cloud.declared import CloudConfig
from nodemanager.cloud.libcloud_base import TIMEOUT, LibcloudCloud, load_driver_class
from nodemanager.cloud.libvirt import options
from nodemanager.cloud.libvirt.devices import Devices, first_free
from nodemanager.cloud.libvirt.domain import PREFIX, READER, STARTING, URI, Domain, metadata
from nodemanager.cloud.libvirt.driver import Hypervisor, TimeLimit
from nodemanager.cloud.libvirt.errors import OPERATION_DENIED, XML_ERROR, code_of, is_lost, typed
from nodemanager.cloud.libvirt.options import Access, Template
from nodemanager.cloud.libvirt.order import Guest, best_guest, domain_xml, memory_of
from nodemanager.cloud.libvirt.volumes import Image, LibvirtLeftovers, StoragePool, VolumePlan
from nodemanager.cloud.provider import Provider
from nodemanager.cloud.tags import tags_for
from nodemanager.core.model.world import Outcome, Size, Tags
from nodemanager.errors import BadRequest, CloudError, ConfigError, MalformedId
from nodemanager.lib.clock import Clock

NO_DOMAIN_AT_ALL = "<nodemanager-check-cloud/>"
"""XML that libvirt can make no domain of."""


@dataclass
class LibvirtChecks:
    """The checks of a hypervisor, in order: whether we may change it, and its room. Nothing is
    called before a check is asked.

    libvirt has no permissions to ask for. A connection that may only read is found by a definition
    that can't be one: such a connection is refused before libvirt looks at it.
    """

    _driver: Hypervisor
    _template: Template
    _wanted: Wanted

    def all(self) -> list[Check]:
        asks: Mapping[str, Callable[[], Found]] = {
            "permission to change": self._may_change,
            **{f"room for {one.name}": partial(self._room, one) for one in self._wanted.sizes},
        }
        return [Check(name, ask) for name, ask in asks.items()]

    def _call(self, name: str, *args: Any) -> Any:
        """A call of libvirt's connection, within the time limit."""
        return self._driver.within(getattr(self._driver.ex_live(), name), *args)

    def _may_change(self) -> Found:
        try:
            self._call("defineXML", NO_DOMAIN_AT_ALL)
        except Exception as error:
            if code_of(error) == OPERATION_DENIED:
                return Found(
                    "the connection may only read",
                    CheckStatus.FAILED,
                    "give the service's user the group libvirt, and let [Cloud Credentials] uri "
                    "name no socket that ends in -ro",
                )
            if code_of(error) != XML_ERROR:
                raise
        return Found("the connection is not read-only")

    def _room(self, size: Size) -> Found:
        """Whether the host is large enough for one node, were it alone there."""
        _, memory_mb, cores, *_ = self._call("getInfo")
        needed = memory_of(size, self._template)
        text = f"{size.cores} cores and {needed} MB of the host's {cores} and {memory_mb} MB"
        if needed > memory_mb:
            return Found(text, CheckStatus.FAILED, "the host is too small: lower [Size] ram")
        if size.cores > cores:
            return Found(
                text, CheckStatus.WARNING, "its cores share the host's: lower [Size] cores"
            )
        return Found(text)


OF_A_TOKEN = UUID("8f1d6f0e-6f6c-4b52-9d0c-3c1f2c0a7d55")
"""The name space of the UUIDs that follow from a client token."""

# libvirt's own numbers.
METADATA_ELEMENT = 2
LIVE, CONFIG = 1, 2
WITH_SAVED_STATE, WITH_NVRAM = 1 | 2, 4
"""VIR_DOMAIN_UNDEFINE_MANAGED_SAVE and _SNAPSHOTS_METADATA; _NVRAM, which not every hypervisor
knows. A domain that has such a thing is not undefined without its flag."""


@dataclass
class Libvirt(Provider):
    """One hypervisor. What it answers is true at once: there is no copy that could be stale."""

    name = "libvirt"
    visible_after = 0.0
    ids_unique = True
    takes_client_tokens = True
    may_authorise = True
    makes_any_size = True

    pool: str
    access: Access
    template: Template
    driver_type: type[Hypervisor]
    clock: Clock
    within: TimeLimit
    _guest: Guest | None = field(default=None, init=False)
    _image_seen: bool = field(default=False, init=False)
    _being_made: set[str] = field(default_factory=set, init=False)
    """The domains that a create is at work on."""
    _choosing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def new_driver(self) -> Hypervisor:
        """Always the same: libvirt's connections serve several threads at once."""
        return self._hypervisor

    @cached_property
    def _hypervisor(self) -> Hypervisor:
        access = self.access
        return self.driver_type(access.uri, access.key, access.secret, self.within)

    def close(self, driver: Hypervisor) -> None:
        driver.ex_close()

    def account(self, driver: Hypervisor) -> str:
        return driver.ex_account()

    def listings(self, driver: Hypervisor) -> Sequence[tuple[object, bool]]:
        return [(self._shown(driver.list_nodes()), False)]

    def _shown(self, nodes: Any) -> Any:
        """The domains, those still to be started as such: libvirt calls them shut off, while their
        volumes are made from the image. They would count as stopped, which nodes to come do not."""
        making = self._being_made
        if not making or not isinstance(nodes, list):
            return nodes
        return [
            replace(one, state=STARTING)
            if isinstance(one, Domain) and one.id in making and one.state == "shutoff"
            else one
            for one in nodes
        ]

    def by_record(self, driver: Hypervisor, record_uuid: str) -> object:
        """libvirt can't search. A domain whose XML does not have the uuid can't bear it as a tag,
        so one with damaged metadata stops no question about other records."""
        answer = self._shown(driver.list_nodes())
        return [node for node in answer if record_uuid in node.xml]

    def by_id(self, driver: Hypervisor, node_id: str) -> object | None:
        found = driver.ex_node(_checked(node_id))
        return None if found is None else self._shown([found])[0]

    def sizes(self, driver: Hypervisor) -> tuple[Size, ...]:
        """libvirt has no sizes: only that of the options; the others are `[Size]` sections."""
        own = self.template
        return (Size("default", "default", cores=own.vcpus, ram_mb=own.memory),)

    def check_image(self, driver: Hypervisor) -> None:
        if self._image_seen:
            return
        self._image(driver)
        self._image_seen = True

    def image(self, driver: Hypervisor) -> str | None:
        return self._image(driver).id

    def _image(self, driver: Hypervisor) -> Image:
        pool = StoragePool.named(driver, self.template.storage_pool)
        return Image.named(driver, pool, self.template.image)

    def create(self, driver: Hypervisor, order: CreateOrder) -> object:
        """Define the domain with its tags, make its volumes, start it.

        The UUID follows from the client token, so that a repeated call goes on with the same
        domain. When libvirt refuses a step, the ones before it are taken back.
        """
        node_id = str(uuid5(OF_A_TOKEN, f"{self.pool}\n{order.client_token}"))
        self._being_made.add(node_id)
        try:
            domain = driver.ex_domain(node_id)
            if domain is None or not self.within(domain.isActive):
                self._start(driver, order, node_id, domain)
        finally:
            self._being_made.discard(node_id)
        made = driver.ex_node(node_id)
        if made is None:
            raise CloudError(f"create {order.name}: domain {node_id} ended at once")
        return made

    def _start(
        self, driver: Hypervisor, order: CreateOrder, node_id: str, domain: Any | None
    ) -> None:
        plan = None
        try:
            plan = VolumePlan.of(driver, order, self.template)
            if domain is None:
                domain = self._define(driver, order, node_id, plan)
            plan.make(driver, order, self.template, node_id)
            self.within(domain.create)
        except Exception as error:
            if domain is not None:
                self._undo(driver, domain, plan, error)
            ours = typed(error, f"create {order.name}", undone=True)
            if ours is None:
                raise
            raise ours from error

    def _undo(
        self, driver: Hypervisor, domain: Any, plan: VolumePlan | None, error: Exception
    ) -> None:
        """Take a refused create back; raises where that can't be done, or the call may still act.

        The domain goes last: as long as it is there, its volumes are no leftovers.
        """
        if plan is None or is_lost(error):
            raise CloudError(f"domain {domain.name()} may have been made: {error}") from error
        try:
            if self.within(domain.isActive):
                raise CloudError("it runs: an earlier start, that was given up, took effect")
            plan.unmake(driver)
            self._undefine(domain)
        except Exception as another:
            raise CloudError(f"{error}; and that could not be taken back: {another}") from error

    def _define(
        self, driver: Hypervisor, order: CreateOrder, node_id: str, plan: VolumePlan
    ) -> Any:
        if not self.template.host_devices:
            return self._defined(driver, order, node_id, plan, ())
        # Until it is defined, another create would take the same ones.
        with self._choosing:
            devices = first_free(self.template.host_devices, driver.list_nodes())
            return self._defined(driver, order, node_id, plan, devices)

    def _defined(
        self,
        driver: Hypervisor,
        order: CreateOrder,
        node_id: str,
        plan: VolumePlan,
        devices: Devices,
    ) -> Any:
        if self._guest is None:
            self._guest = best_guest(self.within(driver.ex_live().getCapabilities))
        now = self.clock.wall()
        image = plan.image.id
        xml = domain_xml(
            order, self.template, self._guest, node_id, now, plan.disks, image, devices
        )
        return self.within(driver.ex_live().defineXML, xml)

    def adopt(self, driver: Hypervisor, node_id: str, tags: Tags) -> None:
        domain, node = driver.ex_domain(_checked(node_id)), driver.ex_node(node_id)
        if domain is None or node is None:
            raise BadRequest(f"there is no domain {node_id}")
        about = {} if node.ours is None else node.ours.attrib
        element = metadata({**node.tags, **tags_for(tags)}, about, bare=True)
        active, kept = self.within(domain.isActive), self.within(domain.isPersistent)
        xml = ElementTree.tostring(element, encoding="unicode")
        where = (LIVE if active else 0) | (CONFIG if kept else 0)
        self.within(domain.setMetadata, METADATA_ELEMENT, xml, PREFIX, URI, where)

    def destroy(self, driver: Hypervisor, node_id: str) -> Outcome:
        domain = driver.ex_domain(_checked(node_id))
        if domain is None:
            return Outcome.UNKNOWN
        kept = self.within(domain.isPersistent)
        if self.within(domain.isActive):
            self.within(domain.destroy)
        if kept:
            self._undefine(domain)
        return Outcome.GONE if driver.ex_domain(node_id) is None else Outcome.ACCEPTED

    def _undefine(self, domain: Any) -> None:
        nvram = "<nvram" in self.within(domain.XMLDesc)
        self.within(domain.undefineFlags, WITH_SAVED_STATE | (WITH_NVRAM if nvram else 0))

    def preflight(self, driver: Hypervisor, wanted: Wanted) -> Sequence[Check]:
        return LibvirtChecks(driver, self.template, wanted).all()

    def understand(self, error: Exception, doing: str) -> CloudError | None:
        return typed(error, doing)


def build_cloud(config: CloudConfig, *, timeout: float = TIMEOUT) -> LibcloudCloud:
    """A CloudDriver for one hypervisor.

    `timeout` is in seconds and applies to each of libvirt's calls; a listing makes one for each
    domain. Raises ConfigError with every problem of the sections.
    """
    access, template = options.read(config, timeout)
    try:
        libvirt = importlib.import_module("libvirt")
    except ImportError as error:
        problem = (
            "[Cloud] provider = libvirt: libvirt's module for Python is not installed; apt-get "
            "install libvirt-dev pkg-config gcc python3-dev, then `make install` again (which "
            "brings it where a file names libvirt), or pip install 'elastic-nodemanager[libvirt]'"
        )
        raise ConfigError([problem]) from error
    # Otherwise libvirt prints each error on stderr, too.
    libvirt.registerErrorHandler(lambda context, error: None, None)
    found = load_driver_class(config.driver_class, LibvirtNodeDriver)
    if not issubclass(found, Hypervisor):
        found = type(found.__name__, (Hypervisor, found), {})
    within = TimeLimit(access.timeout)
    provider = Libvirt(config.pool, access, template, found, config.clock, within)
    leftovers = LibvirtLeftovers(config.pool, template.storage_pool)
    return LibcloudCloud(config, provider, READER, leftovers, timeout=access.timeout)


def _checked(node_id: str) -> str:
    """The id, if it is a UUID as libvirt writes it. Raises MalformedId for any other text."""
    try:
        if str(UUID(node_id)) == node_id:
            return node_id
    except ValueError:
        pass
    raise MalformedId(f"{node_id!r} is no domain's UUID")
