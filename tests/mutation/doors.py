"""What others write: guards of the doors and of the net below them."""

from __future__ import annotations

from tests.mutation.catalog import TextMutant

DOORS = (
    TextMutant(
        "L1",
        "what an adapter can't digest ends its actor",
        "actors/net.py",
        "        except Exception as error:\n",
        "        except ZeroDivisionError as error:\n",
        "tests/actors/test_net.py::test_what_is_told_of_a_flood_is_one_line",
    ),
    TextMutant(
        "T7",
        "one byte that is no UTF-8 hides all records",
        "sql/database.py",
        "    connection.text_factory = _text\n",
        "",
        "tests/registry/test_foreign_rows.py::test_an_unfit_row_is_unreadable_and_kept_and_hides_no_other",
    ),
    TextMutant(
        "T7",
        "a record is read however deep its JSON is",
        "records/wire.py",
        "        if foreign.is_deep(value):\n",
        "        if False:\n",
        "tests/records/test_wire.py::test_what_is_nested_too_deep_is_a_problem_of_its_record",
    ),
    TextMutant(
        "T7",
        "a drain order may be anything",
        "records/wire.py",
        'seen.text("drain") if "drain" in fields else None',
        'fields.get("drain")',
        "tests/records/test_wire.py::test_a_drain_order_that_is_no_text_is_a_problem",
    ),
)
