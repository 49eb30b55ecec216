"""What is started as a fork does and ends as what is executed; `timeit` runs the lines."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forked
from tests.cases import cases
from tests.waiting import DEADLINE_S

pytestmark = pytest.mark.slow

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "Asia/Kolkata"}
ONCE = ("-n1", "-r1")


def said(text: str) -> list[str]:
    """Without how long it took, and where an error was raised."""
    return [one for one in text.splitlines() if not one.startswith(("1 loop", " ", "Traceback"))]


@cases(
    "line",
    {
        "says-and-ends": "print('snow \u2603')",
        "ends-with-a-code": "import sys; sys.exit(3)",
        "ends-with-a-word": "import sys; sys.exit('why')",
        "raises": "raise SystemError('why')",
        "is-killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "is-interrupted": "import signal; signal.raise_signal(signal.SIGINT)",
        "environment": "import os, time; print(dict(os.environ), time.tzname)",
        "place": "import os; print(os.getcwd(), os.getsid(0) == os.getpid())",
        "descriptors": "import os; print(sorted(os.listdir('/proc/self/fd')))",
        "waits-for-its-threads": (
            "import threading, time; threading.Thread(target=lambda: (time.sleep(.1), print(1)))"
            ".start()"
        ),
        "says-its-last-words": "import atexit; atexit.register(print, 'last')",
    },
)
def test_it_does_and_ends_as_if_it_was_executed(line: str, tmp_path: Path) -> None:
    executed = subprocess.run(
        [sys.executable, "-m", "timeit", *ONCE, line],
        env=ENV,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    fork = forked.run(
        *(*ONCE, line), module="timeit", imports=("timeit",), env=ENV, cwd=tmp_path, timeout=30
    )
    assert fork.returncode == executed.returncode
    assert (said(fork.stdout), said(fork.stderr)) == (said(executed.stdout), said(executed.stderr))


def test_who_started_it_hears_of_its_end(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as output:
        asleep = forked.start(
            *(*ONCE, "import time; time.sleep(600)"),
            module="timeit",
            imports=("timeit",),
            env=ENV,
            output=output,
        )
    assert asleep.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        asleep.wait(0.01)
    asleep.kill()
    assert asleep.wait(30) == asleep.poll() == asleep.returncode == -signal.SIGKILL


WORKER = """
import os
from tests import forked
words = ("-n1", "-r1", "import os; print(os.getppid())")
done = forked.run(*words, module="timeit", imports=("timeit",), env=os.environ)
print(done.stdout.splitlines()[0], flush=True)
input()
"""


def test_the_workers_of_a_run_have_one_that_forks_and_it_ends_with_the_last(tmp_path: Path) -> None:
    env = {**os.environ, "PYTEST_XDIST_TESTRUNUID": str(tmp_path)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=env,
            cwd=forked.TREE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    said = [one.stdout.readline() for one in workers if one.stdout is not None]
    (forks,) = {int(line) for line in said}
    end = os.pidfd_open(forks)
    for one in workers:
        assert not select.select([end], [], [], 0)[0]
        one.communicate("\n", timeout=DEADLINE_S)
    assert select.select([end], [], [], DEADLINE_S)[0]
    os.close(end)
