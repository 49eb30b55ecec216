"""The queues of an Arvados server as demand: refused beside another source, or without a server."""

from __future__ import annotations

from nodemanager.config.reader import Draft
from nodemanager.config.report import Place
from nodemanager.config.values import Dispatcher, StoreProvider

CONTAINERS, JOBS = ("Arvados", "containers_queue"), ("Arvados", "jobs_queue")


def check_queues(draft: Draft) -> None:
    """Report what keeps these queues from being asked."""
    other = _other_source(draft)
    if draft.value(*CONTAINERS):
        _containers(draft, other)
    if draft.is_set(*JOBS) and draft.value(*JOBS):
        _jobs(draft, other)


def _other_source(draft: Draft) -> Place | None:
    """The option that names another source of demand."""
    if draft.value("Daemon", "dispatcher") not in (None, Dispatcher.PING):
        return draft.place("Daemon", "dispatcher")
    if draft.value("Daemon", "wishlist_command") is not None:
        return draft.place("Daemon", "wishlist_command")
    return None


def _containers(draft: Draft, other: Place | None) -> None:
    place = draft.place(*CONTAINERS)
    if other is not None:
        text = "{one} and {other} would be two sources of demand: keep one of them"
        draft.report.clash(place, other, text)
    for name in ("host", "token"):
        needed = draft.place("Arvados", name)
        if draft.value("Arvados", name) is None and not needed.written:
            draft.report.clash(place, needed, f"{{one}} needs [Arvados] {name}")


def _jobs(draft: Draft, other: Place | None) -> None:
    """Arvados Node Manager's files have it written out, and mean it for old servers."""
    place = draft.place(*JOBS)
    if other is not None:
        draft.report.clash(place, other, "{one} is not used: {other} is the demand", refuse=False)
    elif draft.value("Records", "provider") is not StoreProvider.ARVADOS:
        draft.report.warn(place, "not used: no Arvados server keeps the records")
    else:
        draft.report.warn(
            place,
            "is demand only where the server's API still has jobs.queue; the log says whether it "
            "has (demand.source)",
        )
