"""The keys of the pass-through sections that the `dummy` cloud takes."""

from __future__ import annotations

from collections.abc import Mapping

ACCEPTED: Mapping[str, frozenset[str]] = {
    "Cloud Credentials": frozenset({"creds"}),
    "Cloud List": frozenset(),
    "Cloud Create": frozenset(),
}
"""The keys that each section takes."""
