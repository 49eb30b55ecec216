"""The parameters of a list call (filters, order, limit, offset, select) as SQL.

Unknown parameters are refused and never ignored: with an ignored filter a listing would look
complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nodemanager.errors import StoreRefused
from nodemanager.records import wire
from nodemanager.records.schema import nodes
from nodemanager.records.view import FIELDS

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
_MAX_FILTERS = 100
_MAX_VALUES = 10_000
"""Of all `in` together: SQLite takes 32,766 values in a statement, PostgreSQL 65,535."""
_LONGEST_PATTERN = 1000
_LATEST_NS = 2**63 - 1
_MAX_INTEGER = 2**31 - 1

Condition = sa.ColumnElement[bool]
_COMPARE: Mapping[str, Callable[[Any, Any], Condition]] = {
    "=": lambda column, value: column.is_not_distinct_from(value),
    "!=": lambda column, value: column.is_distinct_from(value),
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
TIMES = frozenset({"created_at", "modified_at", "first_ping_at", "last_ping_at"})
_TEXTS = frozenset({"uuid", "hostname", "domain", "ip_address", "job_uuid"})
_NUMBERS = frozenset({"slot_number"})
_NEVER_NULL = frozenset({"uuid", "created_at", "modified_at"})


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The parameters of one list call, decoded from JSON."""

    filters: Any = None
    order: Any = None
    limit: Any = None
    offset: Any = None
    select: Any = None
    count: Any = None

    def conditions(self) -> list[Condition]:
        if self.filters is None:
            return []
        if not isinstance(self.filters, list) or len(self.filters) > _MAX_FILTERS:
            said = "filters must be a list of at most %d of [attribute, operator, operand]"
            raise StoreRefused(said % _MAX_FILTERS)
        given = [item[2] for item in self.filters if isinstance(item, list) and len(item) == 3]
        if sum(len(one) for one in given if isinstance(one, list)) > _MAX_VALUES:
            raise StoreRefused(f"filters may have at most {_MAX_VALUES} values")
        return [_condition(item) for item in self.filters]

    def ordering(self) -> list[sa.ColumnElement[Any]]:
        asked = self.order
        if asked is None or asked == "":
            asked = []
        if isinstance(asked, str):
            asked = asked.split(",")
        if not isinstance(asked, list) or not all(isinstance(item, str) for item in asked):
            raise StoreRefused("order must be a list of attributes, each with asc or desc")
        order: dict[str, bool] = {}
        for item in asked:
            name, descending = _order_item(item)
            order.setdefault(name, descending)
        order.setdefault("modified_at", True)
        order.setdefault("uuid", False)
        return [_ordered(name, descending) for name, descending in order.items()]

    def page(self) -> tuple[int, int]:
        """Limit and offset; a limit above MAX_LIMIT counts as MAX_LIMIT."""
        limit = DEFAULT_LIMIT if self.limit is None else _whole("limit", self.limit)
        offset = 0 if self.offset is None else _whole("offset", self.offset)
        return min(limit, MAX_LIMIT), offset

    def counts(self) -> bool:
        if self.count not in (None, "exact", "none"):
            raise StoreRefused("count must be exact or none")
        return bool(self.count != "none")

    def shown(self) -> tuple[str, ...]:
        return selected(self.select)


def selected(select: Any) -> tuple[str, ...]:
    """The fields to show; all where `select` is None."""
    if select is None:
        return FIELDS
    if not isinstance(select, list) or not all(isinstance(name, str) for name in select):
        raise StoreRefused("select must be a list of attributes")
    for name in select:
        if name not in FIELDS:
            raise StoreRefused(f"select: no attribute {_quoted(name)}")
    return tuple(name for name in FIELDS if name in select)


def plain_text(name: str, value: str) -> str:
    """`value`, if both databases can hold it; else raises StoreRefused."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise StoreRefused(f"{name} is not valid text") from error
    if "\0" in value:
        raise StoreRefused(f"{name} is not valid text")
    return value


def stored_time(name: str, value: object) -> int:
    """The whole nanoseconds of a time stamp, if a database can hold them; else raises
    StoreRefused."""
    try:
        nanoseconds = wire.parse_stamp_ns(value)
    except ValueError as error:
        raise StoreRefused(f"{name} {error}") from error
    if abs(nanoseconds) > _LATEST_NS:
        raise StoreRefused(f"{name} is not a time from 1678 to 2261")
    return nanoseconds


def _condition(item: Any) -> Condition:
    if not isinstance(item, list) or len(item) != 3:
        raise StoreRefused("a filter must be [attribute, operator, operand]")
    name, operator, operand = item
    column = _column(name)
    if not isinstance(operator, str):
        raise StoreRefused("a filter's operator must be text")
    operator = operator.lower()
    if operator in _COMPARE:
        if operand is None and operator not in ("=", "!="):
            raise StoreRefused(f"{name} {operator} null has no meaning")
        return _COMPARE[operator](column, _operand(name, operand))
    if operator in ("like", "ilike"):
        return _like(name, column, operator, operand)
    if operator in ("in", "not in"):
        return _in(name, column, operator, operand)
    raise StoreRefused(f"no operator {_quoted(operator)}")


def _in(name: str, column: Any, operator: str, operand: Any) -> Condition:
    if not isinstance(operand, list):
        raise StoreRefused(f"{name} {operator} needs a list")
    values = [_operand(name, value) for value in operand]
    wanted: Condition = column.in_([value for value in values if value is not None])
    if None in values:
        wanted = sa.or_(wanted, column.is_(None))
    elif operator == "not in":
        # Null is not among the values, but SQL would call the comparison unknown.
        return sa.or_(sa.not_(wanted), column.is_(None))
    return wanted if operator == "in" else sa.not_(wanted) & column.is_not(None)


def _like(name: str, column: Any, operator: str, operand: Any) -> Condition:
    if name not in _TEXTS or not isinstance(operand, str):
        raise StoreRefused(f"{operator} compares text with text")
    if (len(operand) - len(operand.rstrip("\\"))) % 2:
        raise StoreRefused(f"{operator}: the pattern ends in its escape character")
    if len(operand) > _LONGEST_PATTERN:
        raise StoreRefused(f"{operator}: a pattern has at most {_LONGEST_PATTERN} characters")
    pattern = plain_text(name, operand)
    method = column.like if operator == "like" else column.ilike
    compared: Condition = method(pattern, escape="\\")
    return compared


def _operand(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in TIMES:
        return stored_time(f"{name}: its operand", value)
    if name in _NUMBERS:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_INTEGER:
            raise StoreRefused(f"{name}: its operand is not a whole number")
        return value
    if not isinstance(value, str):
        raise StoreRefused(f"{name}: its operand is not text")
    return plain_text(name, value)


def _column(name: Any) -> Any:
    if not isinstance(name, str) or name not in TIMES | _TEXTS | _NUMBERS:
        raise StoreRefused(f"no attribute {_quoted(name)} to filter or order by")
    return nodes.c[name]


def _order_item(item: str) -> tuple[str, bool]:
    words = item.removeprefix("nodes.").split()
    directions = {"asc": False, "desc": True}
    if len(words) == 1:
        words.append("asc")
    if len(words) != 2 or words[1].lower() not in directions:
        raise StoreRefused(f"order: {_quoted(item)} is not an attribute with asc or desc")
    name = words[0].removeprefix("nodes.")
    _column(name)
    return name, directions[words[1].lower()]


def _ordered(name: str, descending: bool) -> sa.ColumnElement[Any]:
    column = nodes.c[name]
    ordered = column.desc() if descending else column.asc()
    if name in _NEVER_NULL:
        return ordered
    return ordered.nulls_first() if descending else ordered.nulls_last()


def _whole(name: str, value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_INTEGER:
        raise StoreRefused(f"{name} must be a whole number from 0 up")
    return value


def _quoted(value: Any) -> str:
    return repr(value)[:80]
