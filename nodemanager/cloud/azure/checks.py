"""stub"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodemanager.cloud.azure.options import Access, Template
from nodemanager.cloud.azure.wire import Wire
from nodemanager.cloud.checks import Check, Wanted


def checks(
    wire: Callable[[], Wire], access: Access, template: Template, wanted: Wanted
) -> Sequence[Check]:
    return ()
