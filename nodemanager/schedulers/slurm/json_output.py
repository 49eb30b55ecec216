"""What sinfo and squeue print with --json, in the forms of Slurm 21.08 to 26.05.

The form depends on Slurm's version: a number is `5`, or `{"set": true, "infinite": false,
"number": 5}` since 23.02; a state is one word with flags beside it, or a list of words.
"""

from __future__ import annotations

import json
from typing import Any

from nodemanager.core.model.worker_words import words_of
from nodemanager.errors import SchedulerError
from nodemanager.lib import foreign
from nodemanager.schedulers.slurm.rows import JobRow, SinfoNode, UnreadRow

_BROKEN = (KeyError, TypeError, ValueError, AttributeError)
_SHARES = frozenset({"shared", "oversubscribe"})
"""What `shared` says of a job that may have others beside it; it is empty for most."""


class OtherForm(Exception):
    """The answer is well, but in a form that is not known here: ask for text."""


def nodes(output: str) -> list[SinfoNode]:
    """The rows of sinfo. Raises OtherForm, as for the sinfo of 23.02 and later, which groups them.

    Raises SchedulerError for Slurm's own report of an error: with its controller down, sinfo exits
    with 0 and an empty list.
    """
    rows = [_node(item) for item in _items(output, "nodes")]
    unread = [row.problem for row in rows if row.problem is not None]
    if unread and len(unread) == len(rows):
        raise OtherForm(f"has no node that can be read: {unread[0]}")
    return rows


def jobs(output: str, partitions: frozenset[str]) -> list[JobRow | UnreadRow]:
    """The pending jobs of squeue, of these partitions only unless there are none; as `nodes`.

    With --json, squeue ignores every filter. Where it tells no pending job in a form that is known
    here, it raises OtherForm.
    """
    rows: list[JobRow | UnreadRow] = []
    for item in _items(output, "jobs"):
        number = _pending(item)
        if number is None or (partitions and not _is_in(item.get("partition"), partitions)):
            continue
        try:
            rows.append(_job(item, number))
        except _BROKEN as error:
            rows.append(UnreadRow(number, f"{error!r}"[:200]))
    unread = [row.problem for row in rows if isinstance(row, UnreadRow)]
    if unread and len(unread) == len(rows):
        raise OtherForm(f"has no job that can be read: {unread[0]}")
    return rows


def _is_in(partition: Any, partitions: frozenset[str]) -> bool:
    """Whether a job waits in one of these partitions, as far as it can be read."""
    return not isinstance(partition, str) or not partitions.isdisjoint(partition.split(","))


def _items(output: str, key: str) -> list[Any]:
    try:
        answer = foreign.loads(output)
    except ValueError as error:
        raise SchedulerError(f"is no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise OtherForm("is no object")
    if answer.get("errors"):
        raise SchedulerError(f"reports {json.dumps(answer['errors'])[:200]}")
    items = answer.get(key)
    if not isinstance(items, list):
        raise OtherForm(f"has no list {key!r}")
    return items


def _pending(item: Any) -> int | None:
    """The number of a pending job; None for another job."""
    try:
        number, states = _number(item["job_id"]), _words(item["job_state"])
    except _BROKEN as error:
        raise OtherForm(f"has an item that is no job: {error!r}") from error
    if not number:
        raise OtherForm("has a job without a number")
    return number if "pending" in states else None


def _node(item: Any) -> SinfoNode:
    """The row of an item; raises OtherForm where it names no node."""
    try:
        name = _text(item["name"])
    except _BROKEN as error:
        raise OtherForm(f"has an item that is no node: {error!r}") from error
    try:
        return _readable_node(name, item)
    except _BROKEN as error:
        return SinfoNode(name, frozenset(), "", (), None, None, problem=f"{error!r}"[:200])


def _readable_node(name: str, item: dict[str, Any]) -> SinfoNode:
    flags = item.get("state_flags")
    return SinfoNode(
        name=name,
        words=_words(item["state"]) | (_words(flags) if flags else frozenset()),
        reason=item.get("reason") or "",
        features=tuple(one for one in _listed(item["features"]).split(",") if one),
        weight=_number(item["weight"]),
        cores=_number(item["cpus"]),
        ram_mb=_number(item.get("real_memory")),
        threads=_number(item.get("threads")),
        used_cores=_number(item.get("alloc_cpus")),
        used_ram_mb=_number(item.get("alloc_memory")),
        started_at=_number(item.get("slurmd_start_time")),
    )


def _job(item: dict[str, Any], number: int) -> JobRow:
    array, task = _number(item["array_job_id"]), _number(item["array_task_id"])
    tasks = _of(item, "array_task_string") or (str(task) if array and task is not None else None)
    cpus, count = _number(item["cpus"]) or 1, _number(item.get("tasks")) or 1
    core_spec, thread_spec = (item.get(name) for name in ("core_spec", "thread_spec"))
    request = dict(
        part.split("=", 1) for part in _of(item, "tres_req_str").split(",") if "=" in part
    )
    return JobRow(
        id=str(array or number) if tasks else str(number),
        number=number,
        reason=" ".join((_text(item["state_reason"]), item.get("state_description") or "")),
        priority=_number(item["priority"]) or 0,
        nodes=_number(item["node_count"]) or 1,
        cpus=cpus,
        least_cpus=_number(item["minimum_cpus_per_node"]) or 1,
        ram_mb_per_cpu=_number(item["memory_per_cpu"]) or 0,
        ram_mb_per_node=_number(item["memory_per_node"]) or 0,
        disk_mb=_number(item["minimum_tmp_disk_per_node"]) or 0,
        features=_listed(item["features"]),
        tasks=tasks,
        least_nodes=int(request.get("node", 0)),
        most_nodes=_number(item.get("max_nodes")) or 0,
        cpus_per_task=_number(item.get("cpus_per_task")) or max(1, cpus // count),
        tasks_per_node=_number(item.get("tasks_per_node")) or 0,
        sockets=_number(item.get("sockets_per_node")) or 0,
        per_core=_number(item.get("threads_per_core")) or 0,
        tres_per_node=_of(item, "tres_per_node"),
        tres_per_job=_of(item, "tres_per_job"),
        tres_per_socket=_of(item, "tres_per_socket"),
        tres_per_task=_of(item, "tres_per_task"),
        cpus_per_tres=_of(item, "cpus_per_tres"),
        mem_per_tres=_of(item, "memory_per_tres"),
        required=_of(item, "required_nodes"),
        excluded=_of(item, "excluded_nodes"),
        reservation=_of(item, "resv_name"),
        is_contiguous=_is_true(item.get("contiguous")),
        is_alone=not _shares(item.get("shared"))
        or bool(_number(core_spec))
        or bool(_number(thread_spec)),
        partitions=tuple(_text(item["partition"]).split(",")),
    )


def _shares(value: Any) -> bool:
    """Whether others may be beside the job; what is not known means no."""
    words = value if isinstance(value, list) else [value]
    return all(word in (None, "", *_SHARES) for word in words)


def _is_true(value: Any) -> bool:
    """Whether a flag is set, which since 23.02 may be a number with marks."""
    return bool(_number(value)) if isinstance(value, dict) else bool(value)


def _of(item: dict[str, Any], name: str) -> str:
    """The text of a field that Slurm leaves empty, or away, for most jobs."""
    return _listed(item.get(name))


def _listed(value: Any) -> str:
    """A text, or the one of a list of words."""
    if value is None:
        return ""
    words = value if isinstance(value, list) else [value]
    return ",".join(_text(word) for word in words if word != "")


def _words(value: Any) -> frozenset[str]:
    """The words of a state, which is one word or a list of words."""
    words = value if isinstance(value, list) else [value]
    if not words:
        raise ValueError("it has no state")
    return frozenset().union(*(words_of(_text(word)) for word in words))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: Any) -> int | None:
    """The number, None where it is not set. An infinite one is none."""
    if isinstance(value, dict):
        value = value["number"] if value["set"] and not value["infinite"] else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
