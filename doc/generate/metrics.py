"""The table of metrics, from the daemon's own."""

from __future__ import annotations

from nodemanager.httpserver.refusals import Refusals
from nodemanager.lib.clock import SystemClock
from nodemanager.web.metrics import Metrics

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 45 10 45

   * - Metric
     - Kind
     - What it says
"""


def series() -> dict[str, set[str]]:
    """The name of each series that a running daemon has or may have, with its labels."""
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    return {
        name + end: labels | ({"le"} if end == "_bucket" else set())
        for name, kind, _, labels in _rows()
        for end in ends.get(kind, ("",))
    }


def table() -> str:
    """The whole table as reStructuredText."""
    rows = [
        f"   * - ``{name}{'{' + ','.join(sorted(labels)) + '}' if labels else ''}``\n"
        f"     - {kind}\n     - {text}\n"
        for name, kind, text, labels in sorted(_rows())
    ]
    return _HEAD + "".join(rows)


def _rows() -> list[tuple[str, str, str, set[str]]]:
    metrics = Metrics("pool", SystemClock())
    metrics.count_refusals(Refusals("management"))
    metrics.count_pings(lambda: 0)
    found = []
    for collector in set(metrics.registry._collector_to_names):
        names = set(getattr(collector, "_labelnames", ()))
        for family in collector.collect():
            labels = names.union(*(sample.labels for sample in family.samples)) - {"le"}
            end = "_total" if family.type == "counter" else ""
            text = family.documentation.replace("*", r"\*")
            found.append((family.name + end, family.type, text, labels))
    return found
