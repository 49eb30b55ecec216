"""The clouds that there are: one row for each value of `[Cloud] provider`.

The name of a row is the name of its package, `nodemanager.cloud.NAME`. There the module `options`
has SECTIONS, the options of its sections, and the module `adapter` has `build_cloud`
(doc/developing.rst). A row says what the checks of a configuration must know of the cloud.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Traits:
    """What sets a cloud apart; the defaults are those of a cloud somewhere else."""

    near: bool = False
    """Its nodes run on this machine, if it has any."""
    needs_no_demand: bool = False
    """A file in which nothing asks for nodes is no mistake."""
    preemptible: bool = True
    """It has spot or preemptible nodes."""
    places: bool = False
    """Its adapter boots nodes in several zones or subnets, as the order says."""
    in_process: bool = False
    """Its nodes are in this process alone: it can't be connected anew, as for other credentials."""


PROVIDERS: Mapping[str, Traits] = {
    "local": Traits(near=True),
    "dummy": Traits(near=True, needs_no_demand=True, in_process=True),
    "ec2": Traits(places=True),
    "gce": Traits(places=True),
    "azure": Traits(places=True),
    "openstack": Traits(preemptible=False, places=True),
    "libvirt": Traits(preemptible=False),
}

ALSO_CALLED: Mapping[str, str] = {
    "aws": "ec2",
    "amazon": "ec2",
    "google": "gce",
    "gcp": "gce",
    "microsoft": "azure",
    "nova": "openstack",
    "kvm": "libvirt",
    "qemu": "libvirt",
}
"""Other names that people have for these clouds, for the hint of an error."""

NO_CLOUD = Traits(near=True, needs_no_demand=True)


def traits_of(provider: str | None) -> Traits:
    """The traits of that `[Cloud] provider`, which is blank for a registry on its own."""
    return NO_CLOUD if provider == "" else PROVIDERS.get(provider or "", Traits())


def listed(word: str, names: Collection[str] = PROVIDERS) -> str:
    """The names, those of all clouds where none are given, with that word before the last one."""
    *others, last = names
    return f"{', '.join(others)} {word} {last}" if others else last
