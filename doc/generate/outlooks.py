"""The table of what becomes of what has a reason, from core's table of reasons."""

from __future__ import annotations

from nodemanager.core.model.reasons import BOOT, NODE, POOL, RECORD, Reason

COLUMNS = {"Pool": POOL, "Node": NODE, "Record": RECORD, "Boot": BOOT}

_HEAD = """\
.. list-table::
   :header-rows: 1
   :widths: 36 16 16 16 16

   * - Reason code"""


def table() -> str:
    """A row for each reason code: what becomes of whatever has it, by what that is."""
    lines = [_HEAD, *(f"     - {name}" for name in COLUMNS)]
    for reason in Reason:
        cells = [reason.outlooks.get(column) for column in COLUMNS.values()]
        if any(cells):
            lines.append(f"   * - ``{reason.value}``")
            lines.extend("     -" if cell is None else f"     - {cell.value}" for cell in cells)
    return "\n".join([*lines, ""])
