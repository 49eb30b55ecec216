"""What the credential may do on OpenStack, as far as that can be known without making anything.

A policy refuses a call by the policy rule's name. The questions are sent as they are. Nova asks its
policy of a create before it looks for the flavor, so that a create with a flavor that does not
exist is a question, too. It looks for a server before it asks the policy of a delete, so that
there is no such question about deleting. The access rules of an application credential are in its
token: they are compared here as keystone's middleware does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from nodemanager.cloud.checks import Check, CheckStatus, Found
from nodemanager.cloud.openstack.errors import Refusal
from nodemanager.cloud.openstack.options import UUID, Template
from nodemanager.cloud.openstack.token import TYPES, Token
from nodemanager.cloud.openstack.wire import Wire, server_path

READS = (
    ("compute", "/servers/detail"),
    ("compute", "/flavors/detail"),
    ("image", "/images"),
    ("network", "/ports"),
    ("network", "/floatingips"),
    ("volume", "/volumes/detail"),
)
CALLS = (
    *((service, "GET", path) for service, path in READS),
    ("compute", "GET", "/servers/{}"),
    ("compute", "POST", "/servers"),
    ("compute", "DELETE", "/servers/{}"),
    ("image", "GET", "/images/{}"),
    ("network", "GET", "/ports/{}"),
    ("network", "DELETE", "/ports/{}"),
    ("network", "GET", "/floatingips/{}"),
    ("network", "DELETE", "/floatingips/{}"),
    ("volume", "GET", "/volumes/{}"),
    ("volume", "DELETE", "/volumes/{}"),
)
"""All that the daemon sends, as in etc/iam/openstack.json."""

NAMES = (("network", "GET", "/networks"), ("compute", "GET", "/os-server-groups"))
"""What it sends besides where `[Cloud Create]` has names of networks, or of a server group."""

RIGHTS = (
    "give the user the role member, and an application credential all of etc/iam/openstack.json"
)
CHECK_RULES = "to have it asked, put the rules of etc/iam/openstack-check.json into the credential"
_POLICY = re.compile(r"policy doesn't allow (\S+)|rule:([\w:]+).* is disallowed by policy", re.I)
_KEPT = 300


def checks(
    wire: Callable[[], Wire], token: Callable[[], Token], template: Template
) -> Sequence[Check]:
    """Who we are, and what we may do. Nothing is sent before a check is asked."""
    asked = [Check("user", lambda: _who(token().about))]
    for service, path in READS:
        ask = partial(_may_read, wire, service, path)
        asked.append(Check(f"permission GET {path}", ask, RIGHTS))
    asked.append(Check("permission POST /servers", lambda: _may_create(wire(), template), RIGHTS))
    asked.append(Check("permissions to end nodes", _unasked))
    asked.append(Check("access rules", lambda: _rules(token(), template)))
    return asked


def _who(about: Any) -> Found:
    roles = sorted(map(str, about.role_names))
    credential = about.application_credential_id and about.application_credential
    how = f", by application credential {credential['name']}" if credential else ""
    text = (
        f"user {about.username} of domain {about.user_domain_name}, project {about.project_name} "
        f"of domain {about.project_domain_name}, roles {', '.join(roles) or 'none'}{how}"
    )
    if set(roles) <= {"reader"}:
        return Found(text, CheckStatus.WARNING, "a reader boots no nodes: give it the role member")
    return Found(text)


def _may_read(wire: Callable[[], Wire], service: str, path: str) -> Found:
    if not wire().has(service):
        return Found(f"the cloud has no {service} service in this region", CheckStatus.NOT_ASKED)
    try:
        wire().get(service, path, {"limit": "1"})
    except Refusal as refusal:
        if refusal.status not in (401, 403):
            raise
        return Found(refused(refusal, f"GET {path}"), CheckStatus.FAILED, RIGHTS)
    return Found("allowed")


def _may_create(wire: Wire, template: Template) -> Found:
    """Ask for a server of a flavor that is not there, without a mark of ours on it."""
    server: dict[str, Any] = {
        "name": "nodemanager-check-cloud",
        "flavorRef": str(uuid4()),
        "imageRef": str(uuid4()),
        "networks": "none",
    }
    if template.availability_zone is not None:
        server["availability_zone"] = template.availability_zone
    try:
        made = wire.post("compute", "/servers", {"server": server})
    except Refusal as refusal:
        if refusal.status in (401, 403):
            return Found(refused(refusal, "POST /servers"), CheckStatus.FAILED, RIGHTS)
        if refusal.status in (400, 404) and "flavor" in refusal.message.lower():
            return Found("allowed")
        return Found(
            f"nova answered otherwise: {str(refusal)[:_KEPT]}",
            CheckStatus.NOT_ASKED,
            "try it with --boot",
        )
    node_id = str(made.get("server", {}).get("id"))
    wire.delete("compute", server_path(node_id))
    return Found(
        f"this API made server {node_id} of a flavor that is not there; it was ended at once",
        CheckStatus.FAILED,
        "make sure that it is gone; this API can't be asked for permissions",
    )


def _unasked() -> Found:
    return Found(
        "DELETE of servers, ports, volumes and floating addresses: OpenStack has no harmless "
        "question about it",
        CheckStatus.NOT_ASKED,
        "try it with --boot",
    )


def _rules(token: Token, template: Template) -> Found:
    """Whether the access rules allow each call of the daemon."""
    rules = token.about.application_credential_access_rules
    if rules is None:
        return Found("none, so that only the user's roles limit the credential")
    networks, group = template.networks, template.server_group
    by_name = (
        not isinstance(networks, str) and not all(map(UUID.fullmatch, networks)),
        group is not None and not UUID.fullmatch(group),
    )
    calls = [
        call for call in (*CALLS, *itertools.compress(NAMES, by_name)) if call[0] in token.endpoints
    ]
    missing = [
        f"{method} {_path(token, service, path, '*')}"
        for service, method, path in calls
        if not _allowed(rules, service, method, _path(token, service, path, str(uuid4())))
    ]
    if not missing:
        return Found(f"the credential's {len(rules)} rules allow every call of the daemon")
    return Found(
        f"no rule of the credential allows {', '.join(missing)}",
        CheckStatus.FAILED,
        "make another credential with etc/iam/openstack.json, with the paths of your endpoints",
    )


def _path(token: Token, service: str, path: str, thing: str) -> str:
    """The whole path of a call, as a rule names it."""
    return urlsplit(token.endpoint(service)).path.rstrip("/") + path.format(thing)


def _allowed(rules: Sequence[Mapping[str, str]], service: str, method: str, path: str) -> bool:
    return any(
        rule.get("method") == method
        and rule.get("service") in TYPES[service]
        and re.fullmatch(_pattern(str(rule.get("path"))), path)
        for rule in rules
    )


def _pattern(path: str) -> str:
    """The expression of a rule's path: a star or {name} is one part of it, two stars are any."""
    parts = re.split(r"(\{[^}]*\}|\*\*|\*)", path)
    kinds = {"": "", "**": ".*", "*": "[^/]+"}
    return "".join(
        kinds.get(part, "[^/]+" if part.startswith("{") else re.escape(part)) for part in parts
    )


def refused(refusal: Refusal, call: str) -> str:
    """What forbids a call: the policy rule that the service names, or the access rules."""
    if refusal.status == 401:
        # The credentials work: keystone's middleware says so of a call without a rule.
        return f"no access rule of the credential allows {call}"
    named = _POLICY.search(refusal.message)
    if named is None:
        return f"{call} is not allowed: {str(refusal)[:_KEPT]}"
    return f"{named[1] or named[2]} is not allowed ({call})"
