"""What clouds' metadata services say of taking a node, in the form that each cloud publishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from email.utils import format_datetime
from typing import Any

Service = Callable[[str, str | None], dict[str, str]]
"""The pages of the node of that id; the time at which the cloud takes it for another's sake, in RFC
3339, None where it does not."""

# docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
SPOT_PAGE = "/latest/meta-data/spot/instance-action"
# docs.aws.amazon.com/AWSEC2/latest/UserGuide/viewing_scheduled_events.html
EVENTS_PAGE = "/latest/meta-data/events/maintenance/scheduled"
# cloud.google.com/compute/docs/instances/create-use-preemptible and
# cloud.google.com/compute/docs/metadata/getting-live-migration-notice
GOOGLE = "/computeMetadata/v1/instance"
# learn.microsoft.com/azure/virtual-machines/linux/scheduled-events
AZURE_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
AZURE_NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
AZURE_ID = "/metadata/instance/compute/vmId?api-version=2021-02-01&format=text"


def amazon(node_id: str, at: str | None) -> dict[str, str]:
    pages = {"/latest/meta-data/instance-id": node_id}
    if at is not None:
        pages[SPOT_PAGE] = json.dumps({"action": "terminate", "time": at})
    return pages


def google(node_id: str, at: str | None, event: str = "NONE") -> dict[str, str]:
    """Google says no time."""
    preempted = "FALSE" if at is None else "TRUE"
    pages = {"id": node_id, "preempted": preempted, "maintenance-event": event}
    return {f"{GOOGLE}/{name}": text for name, text in pages.items()}


def azure_event(kind: str, *names: str, at: str) -> dict[str, Any]:
    return {
        "EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5",
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(names),
        "EventStatus": "Scheduled",
        "NotBefore": at,
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": 9,
    }


def azure_pages(*events: dict[str, Any], indent: int | None = None) -> dict[str, str]:
    """Of the machine whose name is Node-7."""
    document = json.dumps({"DocumentIncarnation": 3, "Events": events}, indent=indent)
    return {AZURE_ID: "02aa", AZURE_NAME: "Node-7", AZURE_EVENTS: document}


def microsoft(node_id: str, at: str | None) -> dict[str, str]:
    if at is None:
        return azure_pages()
    when = format_datetime(datetime.fromisoformat(at), usegmt=True)
    return azure_pages(azure_event("Preempt", "Node-7", at=when))
