"""What sinfo and squeue print with --json, in the forms of Slurm 21.08 and later.

The form depends on Slurm's version: a number is `5`, or `{"set": true, "infinite": false,
"number": 5}` since 23.02; a state is one word with flags beside it, or a list of words.
"""

from __future__ import annotations

import json
from typing import Any

from nodemanager import foreign
from nodemanager.core.model.features import gres_of
from nodemanager.core.model.worker_words import words_of
from nodemanager.errors import SchedulerError
from nodemanager.schedulers.slurm.rows import JobRow, NodeRow


class OtherForm(Exception):
    """The answer is well, but in a form that is not known here: ask for text."""


def nodes(output: str) -> list[NodeRow]:
    """The rows of sinfo. Raises OtherForm, as for the sinfo of 23.02 and later, which groups them.

    Raises SchedulerError for Slurm's own report of an error: with its controller down, sinfo exits
    with 0 and an empty list.
    """
    return _read(output, "nodes", _node)


def jobs(output: str, partitions: frozenset[str]) -> list[JobRow]:
    """The pending jobs of squeue, of these partitions only unless there are none; as `nodes`.

    With --json, squeue ignores every filter.
    """
    return [
        _checked(_job, item)
        for states, item in _read(output, "jobs", lambda item: (_words(item["job_state"]), item))
        if "pending" in states
        and (not partitions or not partitions.isdisjoint(item["partition"].split(",")))
    ]


def _read(output: str, key: str, make: Any) -> list[Any]:
    try:
        answer = foreign.loads(output)
    except ValueError as error:
        raise SchedulerError(f"is no JSON: {error}") from error
    if not isinstance(answer, dict):
        raise OtherForm("is no object")
    if answer.get("errors"):
        raise SchedulerError(f"reports {json.dumps(answer['errors'])[:200]}")
    if not isinstance(answer.get(key), list):
        raise OtherForm(f"has no list {key!r}")
    return [_checked(make, item) for item in answer[key]]


def _checked(make: Any, item: Any) -> Any:
    try:
        return make(item)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OtherForm(f"has an item that can't be read: {error!r}") from error


def _node(item: dict[str, Any]) -> NodeRow:
    flags = item.get("state_flags")
    features = item["features"]
    return NodeRow(
        name=_text(item["name"]),
        words=_words(item["state"]) | (_words(flags) if flags else frozenset()),
        reason=item.get("reason") or "",
        features=tuple(features if isinstance(features, list) else features.split(","))
        if features
        else (),
        weight=_number(item["weight"]),
        cores=_number(item["cpus"]),
    )


def _job(item: dict[str, Any]) -> JobRow:
    number = _number(item["job_id"])
    if not number:
        raise ValueError("no job id")
    array, task = _number(item["array_job_id"]), _number(item["array_task_id"])
    tasks = item["array_task_string"] or (str(task) if array and task is not None else None)
    return JobRow(
        id=str(array) if tasks else str(number),
        number=number,
        reason=" ".join((_text(item["state_reason"]), item.get("state_description") or "")),
        priority=_number(item["priority"]) or 0,
        nodes=_number(item["node_count"]) or 1,
        cpus=_number(item["cpus"]) or 1,
        least_cpus=_number(item["minimum_cpus_per_node"]) or 1,
        ram_mb_per_cpu=_number(item["memory_per_cpu"]) or 0,
        ram_mb_per_node=_number(item["memory_per_node"]) or 0,
        disk_mb=_number(item["minimum_tmp_disk_per_node"]) or 0,
        features=item["features"] or "",
        tasks=tasks,
        gres=gres_of(item.get("tres_per_node") or ""),
    )


def _words(told: Any) -> frozenset[str]:
    """The words of a state, which is one word or a list of words."""
    words = told if isinstance(told, list) else [told]
    if not words:
        raise ValueError("it has no state")
    return frozenset().union(*(words_of(_text(word)) for word in words))


def _text(told: Any) -> str:
    if not isinstance(told, str) or not told:
        raise TypeError(f"{told!r} is no text")
    return told


def _number(told: Any) -> int | None:
    """The number, None where it is not set. An infinite one is none."""
    if isinstance(told, dict):
        told = told["number"] if told["set"] and not told["infinite"] else None
    if told is None:
        return None
    if isinstance(told, bool) or not isinstance(told, int):
        raise TypeError(f"{told!r} is no whole number")
    return told
