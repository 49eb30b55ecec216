"""Takes the manual's pictures of the dashboard: `python -m tests.web.dashboard.pictures FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser

from tests.web.dashboard.browser import PHONE, Visitor, chromium
from tests.web.dashboard.console import TOKEN
from tests.web.dashboard.scene import Scene, scene

DESK: Mapping[str, Any] = {"viewport": {"width": 1100, "height": 900}}
WHOLE: Mapping[str, Any] = {"viewport": {"width": 1100, "height": 966}}
HAND: Mapping[str, Any] = {"viewport": PHONE, "has_touch": True, "is_mobile": True}
PICTURES: Mapping[str, tuple[str, str, Mapping[str, Any]]] = {
    "overview-desktop-light": ("/", "light", WHOLE),
    "overview-desktop-dark": ("/", "dark", WHOLE),
    "overview-phone-light": ("/", "light", HAND),
    "overview-phone-dark": ("/", "dark", HAND),
    "record-desktop-light": ("/records/4", "light", DESK),
    "node-desktop-light": ("/nodes/{node}", "light", DESK),
    "nodes-phone-dark": ("/nodes?state=busy", "dark", HAND),
    "drain-desktop-light": ("/act/drain?id={node}", "light", DESK),
}
"""Each picture's page, colours and screen."""


def take(browser: Browser, shown: Scene, folder: Path, names: tuple[str, ...]) -> None:
    """Take these pictures of the scene into the folder, as NAME.png."""
    for name in names:
        path, scheme, how = PICTURES[name]
        visitor = Visitor(browser, shown.url, color_scheme=scheme, timezone_id="UTC", **how)
        visitor.sign_in(TOKEN)
        visitor.page.goto(path.format(node=shown.world.nodes[0].id))
        if not path.startswith("/act/"):
            visitor.live()
        visitor.page.screenshot(path=folder / f"{name}.png", animations="disabled")
        visitor.close()


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, scene(Path(home)) as shown:
        shown.drain(shown.world.nodes[1].id)
        with chromium() as browser:
            take(browser, shown, folder, tuple(PICTURES))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
