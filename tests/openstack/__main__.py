"""`make proof NAME=openstack`: start a real OpenStack, run the tests that need one, end it.

`python -m tests.openstack VENV [pytest's arguments]`; with `--serve` it runs until Ctrl-C, and
says how tests find it. VENV is where etc/install/openstack put OpenStack.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

from tests.openstack import CLOUD_FILE
from tests.openstack.processes import Broken
from tests.openstack.stack import Stack

SUITES = (
    "tests/contract/test_cloud_contract.py",
    "tests/cloud/openstack/test_likeness.py",
    "tests/openstack",
)
PYTEST_S = 60.0
"""How long pytest has to end its own daemons when it is told to stop."""


def main(venv: Path, arguments: list[str]) -> int:
    began = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - began:4.0f} s  {what}", flush=True)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupted)
    home = Path(tempfile.mkdtemp(prefix="nodemanager-openstack-", dir="/tmp"))
    stack = Stack(home, venv, say)
    worth_keeping = False
    try:
        stack.start()
        description = home / "cloud.json"
        description.touch(mode=0o600)
        description.write_text(json.dumps(asdict(stack.cloud)), encoding="utf-8")
        if arguments == ["--serve"]:
            say(f"export {CLOUD_FILE}={description}")
            signal.pause()
        code = _pytest(description, arguments)
        worth_keeping = code != 0
        return code
    except Broken as error:
        worth_keeping = True
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        say("ending all of it")
        stack.close()
        if worth_keeping:
            say(f"what the services said is in {home}/logs")
        else:
            shutil.rmtree(home, ignore_errors=True)


def _pytest(description: Path, arguments: list[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "openstack", *SUITES, *arguments]
    # Ctrl-C goes to both of us; it is the first to end.
    running = subprocess.Popen(command, env={**os.environ, CLOUD_FILE: str(description)})
    try:
        return running.wait()
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            try:
                running.wait(PYTEST_S)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), sys.argv[2:]))
