"""A real browser: Debian's Chromium, driven by Playwright, and axe-core's rules in its pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.waiting import busy

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
DESKTOP = {"width": 1200, "height": 900}
PHONE = {"width": 390, "height": 844}
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@contextmanager
def chromium(*arguments: str) -> Iterator[Browser]:
    """A browser without a window; with `arguments` besides its own."""
    path = shutil.which("chromium")
    with sync_playwright() as player:
        opened = player.chromium.launch(executable_path=path, args=[*ARGUMENTS, *arguments])
        expect.set_options(timeout=15_000 * busy())
        try:
            yield opened
        finally:
            # A browser with a page that still hears a stream takes over a minute to close.
            for context in opened.contexts:
                context.close()
            opened.close()


class Visitor:
    """One person at a browser of their own; what its console says is in `complaints`."""

    def __init__(self, browser: Browser, url: str, **how: Any) -> None:
        how.setdefault("viewport", DESKTOP)
        self.context = browser.new_context(base_url=url, **how)
        self.context.set_default_timeout(15_000 * busy())
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def sign_in(self, token: str, name: str = "Ann") -> None:
        self.page.goto("/")
        self.page.get_by_label("Your name").fill(name)
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Overview")

    def live(self) -> None:
        """Wait until the page hears of changes."""
        expect(self.page.locator("#live")).to_have_text("Live.")

    def violations(self, *rules: str) -> list[str]:
        """What axe-core finds wrong with the page: the rule, and where it is broken.

        With `rules` only these are asked.
        """
        asked = {"type": "rule", "values": rules} if rules else {"type": "tag", "values": STANDARDS}
        found = Axe().run(self.page, options={"runOnly": asked})
        return [
            f"{one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in found.response["violations"]
        ]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        script = "() => document.documentElement.scrollWidth - window.innerWidth"
        return int(self.page.evaluate(script))

    def cut(self) -> list[str]:
        """The texts of charts that begin or end outside of them."""
        script = """() => [...document.querySelectorAll('svg.chart text')].filter((one) => {
            const [it, all] = [one, one.ownerSVGElement].map((each) =>
                each.getBoundingClientRect());
            return it.left < all.left - 0.5 || it.right > all.right + 0.5;
        }).map((one) => one.textContent)"""
        return list(self.page.evaluate(script))

    def close(self) -> None:
        self.context.close()
