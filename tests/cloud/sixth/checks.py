"""What only a DigitalOcean account can be asked before the first boot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nodemanager.cloud.checks import Check, CheckStatus, Found, Wanted
from tests.cloud.sixth.options import Template
from tests.cloud.sixth.wire import Wire


def checks(wire: Callable[[], Wire], template: Template, wanted: Wanted) -> Sequence[Check]:
    """Whether the region has the sizes."""

    def sizes() -> Found:
        here = {
            str(one.get("slug"))
            for page in wire().pages("sizes")
            for one in page
            if one.get("available") and template.region in one.get("regions", ())
        }
        missing = sorted({size.instance_type for size in wanted.sizes} - here)
        if missing:
            text = f"{template.region} has no {', '.join(missing)}"
            return Found(text, CheckStatus.FAILED, "choose another region or size")
        return Found(f"{template.region} has every size")

    return [Check("sizes of the region", sizes)]
