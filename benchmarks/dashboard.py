"""The dashboard with a thousand nodes: `python -m benchmarks.dashboard [NODES]`.

Prints how long a browser takes until it paints the list of nodes, what ten viewers of that list
cost the daemon, and how much each viewer is sent. Each decision, one node in a hundred changes.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import requests

from nodemanager.core.model.world import WorkerState
from tests.waiting import until
from tests.web.dashboard.browser import Visitor, chromium
from tests.web.dashboard.console import TOKEN
from tests.web.dashboard.scene import Scene, scene

VIEWERS = 10
DECISIONS = 6
EVERY_S = 5.0
ASKS_S = 2.0
"""How often a page asks, as dashboard.js has it."""
LOADS = 5

LISTENS = """
import sys, time, requests
url, cookie, version, every_s = sys.argv[1:]
count = 0
with requests.Session() as session:
    while True:
        asked = {"of": "/nodes", "version": version}
        answer = session.get(url, params=asked, headers={"Cookie": cookie}, timeout=60)
        version = answer.headers.get("Version", version)
        count += int(answer.headers.get("Content-Length", 0))
        print(count, flush=True)
        time.sleep(float(every_s))
"""


def cookie_of(shown: Scene) -> str:
    """The cookie of somebody who signed in."""
    answer = requests.post(
        f"{shown.url}/sign-in",
        data={"name": "bench", "token": TOKEN},
        allow_redirects=False,
        timeout=60,
    )
    return answer.headers["Set-Cookie"].partition(";")[0]


def version_of(shown: Scene, cookie: str) -> tuple[str, int]:
    """The version of the list of nodes, and the bytes of the whole page."""
    page = requests.get(f"{shown.url}/nodes", headers={"Cookie": cookie}, timeout=60).text
    return page.partition('data-version="')[2].partition('"')[0], len(page.encode())


def play(shown: Scene) -> float:
    """The processor seconds of this process in which it decides, and shows that to its viewers."""
    before = time.process_time()
    for turn in range(DECISIONS):
        began = time.monotonic()
        for number in range(turn, len(shown.world.records), 100):
            old = shown.world.records[number]
            busy = old.worker_state is WorkerState.BUSY
            shown.world.ping(old.uuid, WorkerState.IDLE if busy else WorkerState.BUSY)
        shown.decide()
        time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
    return time.process_time() - before


def watched(shown: Scene) -> tuple[float, list[int]]:
    """The same with VIEWERS, and the bytes that each was sent."""
    cookie = cookie_of(shown)
    version, _ = version_of(shown, cookie)
    command = [sys.executable, "-c", LISTENS, f"{shown.url}/live", cookie, version, str(ASKS_S)]
    viewers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(VIEWERS)]
    time.sleep(EVERY_S)
    used = play(shown)
    sent = []
    for one in viewers:
        one.terminate()
        lines = one.communicate()[0].split()
        sent.append(int(lines[-1]) if lines else 0)
    return used, sent


def painted(shown: Scene) -> Sequence[float]:
    """Milliseconds from a click until the browser paints the list of nodes, several times."""
    script = (
        "() => performance.getEntriesByName('first-contentful-paint').map((one) => one.startTime)"
    )
    found = []
    with chromium() as browser:
        visitor = Visitor(browser, shown.url)
        visitor.sign_in(TOKEN)
        for _ in range(LOADS):
            visitor.page.goto("/nodes")
            # The pages' own policy forbids the eval of Playwright's wait_for_function.
            until("the first paint", lambda: visitor.page.evaluate(script))
            found += visitor.page.evaluate(script)
        visitor.close()
    return found


def main(nodes: int) -> None:
    with tempfile.TemporaryDirectory() as home, scene(Path(home), nodes, 2 * nodes) as shown:
        paints = painted(shown)
        _, size = version_of(shown, cookie_of(shown))
        alone = play(shown)
        used, sent = watched(shown)
    for_s = DECISIONS * EVERY_S
    told = {
        "nodes": nodes,
        "page_kb": round(size / 1000),
        "first_paint_ms": round(statistics.median(paints)),
        "first_paint_worst_ms": round(max(paints)),
        "viewers": VIEWERS,
        "cpu_percent_without_viewers": round(100 * alone / for_s, 1),
        "cpu_percent_with_viewers": round(100 * used / for_s, 1),
        "sent_kb_per_viewer_and_decision": round(statistics.median(sent) / DECISIONS / 1000, 1),
    }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
