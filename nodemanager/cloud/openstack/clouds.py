"""One cloud of a clouds.yaml, in the words of `[Cloud Credentials]`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nodemanager.cloud.section_reader import SectionReader

PLACES = (Path("~/.config/openstack/clouds.yaml"), Path("/etc/openstack/clouds.yaml"))
"""Where OpenStack's own client looks, but for the current directory: a service has none."""

AUTH: Mapping[str, str] = {
    "application_credential_id": "application_credential_id",
    "application_credential_secret": "application_credential_secret",
    "auth_url": "auth_url",
    "password": "password",
    "project_domain_id": "project_domain_id",
    "project_domain_name": "project_domain",
    "project_id": "project_id",
    "project_name": "project",
    "trust_id": "trust_id",
    "user_domain_id": "domain_id",
    "user_domain_name": "domain",
    "user_id": "user_id",
    "username": "username",
}
"""keystoneauth1's words for what signs in, which a clouds.yaml has, too, and our options."""
NAMED: Mapping[str, str] = {
    "project": "project_id",
    "project_domain": "project_domain_id",
    "domain": "domain_id",
    "username": "user_id",
}
"""What may be given by its name or by its id, by the option of the name."""
TOP: Mapping[str, str] = {"cacert": "ca_bundle", "interface": "interface", "region_name": "region"}


def with_cloud(given: SectionReader) -> SectionReader:
    """The section with what the cloud that it names says; the section's own values go first.

    No problem that is told here has a value of the file in it.
    """
    name, path = given.text("cloud"), given.text("clouds_yaml")
    if name is None:
        if path is not None:
            given.wrong("clouds_yaml", "needs cloud, the name of one in that file", path)
        return given
    found = _read(given, Path(path) if path else None)
    cloud = found.get(name) if found is not None else {}
    if not isinstance(cloud, dict):
        known = ", ".join(sorted(map(str, found or {}))) or "none"
        given.wrong("cloud", f"the file has no such cloud; it has {known}", name)
        cloud = {}
    auth = cloud.get("auth") or {}
    if not isinstance(auth, dict):
        given.wrong("cloud", "its auth is no mapping", name)
        auth = {}
    for key in sorted(set(map(str, auth)) - AUTH.keys()):
        given.wrong("cloud", f"nodemanager does not understand its auth.{key}", name)
    if "profile" in cloud:
        given.wrong("cloud", "nodemanager knows no vendor profiles; write auth_url here", name)
    told = {ours: str(auth[key]) for key, ours in AUTH.items() if auth.get(key)}
    told |= {ours: str(cloud[key]) for key, ours in TOP.items() if cloud.get(key)}
    if cloud.get("verify") is False:
        told["insecure"] = "yes"
    own = {key: value for key, value in given.values.items() if value.strip()}
    return SectionReader(
        given.section, {**_named_once(told, own), **own}, given.problems, given.options
    )


def _named_once(told: dict[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """What the file told, without the names of what it tells the id of, too, as the one that
    Horizon hands out does; and without what the section names itself."""
    left_out: set[str] = set()
    for name_key, id_key in NAMED.items():
        if id_key in told:
            left_out.add(name_key)
        if name_key in own or id_key in own:
            left_out |= {name_key, id_key}
    return {key: value for key, value in told.items() if key not in left_out}


def _read(given: SectionReader, path: Path | None) -> dict[Any, Any] | None:
    """The clouds of the file; None where it can't be read, which was told."""
    # Only installations that have such a file need it. It ships no types.
    import yaml  # type: ignore[import-untyped]

    places = [place.expanduser() for place in PLACES] if path is None else [path]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        given.wrong("clouds_yaml", f"there is no {' or '.join(map(str, places))}")
        return None
    try:
        clouds = yaml.safe_load(found.read_text(encoding="utf-8"))["clouds"]
    except OSError as error:
        given.wrong("clouds_yaml", f"can't be read: {error.strerror}", str(found))
        return None
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError):
        given.wrong("clouds_yaml", "is no YAML file with a mapping `clouds`", str(found))
        return None
    return clouds if isinstance(clouds, dict) else {}
