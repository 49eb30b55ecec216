"""How the tests ask a cloud's own checks, as `check-cloud` does."""

from __future__ import annotations

from nodemanager.cloud.api import CloudDriver
from nodemanager.cloud.checks import Found, Wanted
from nodemanager.preflight.checks import ask
from tests.fakes.clock import ManualClock


def asked(cloud: CloudDriver, wanted: Wanted) -> dict[str, Found]:
    """Every answer by its check's name; an error is a failure."""
    answers = [ask(check, ManualClock()) for check in cloud.preflight(wanted)]
    assert len({one.name for one in answers}) == len(answers)
    return {one.name: one.found for one in answers}
