"""A cloud's server of these tests as a process of its own.

It says its URL once it serves. Each line on its standard input is an order, [NAME, ARGUMENTS ...],
and gets one line of answer. It ends with its input.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TextIO

from tests.forked import start
from tests.live.farm import NotServed
from tests.live.harness import environment, frozen
from tests.waiting import DEADLINE_S


class ServerProcess:
    """The process `python -m MODULE`, which calls `serve`, and of which much is its imports."""

    def __init__(self, module: str, home: Path, *imports: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        reads, orders = os.pipe()
        answers, writes = os.pipe()
        with (
            open(home / f"{module.rpartition('.')[2]}.log", "wb") as log,
            open(reads, "rb") as stdin,
            open(writes, "wb") as stdout,
        ):
            self._process = start(
                module=module,
                imports=(module, *imports),
                env=environment(),
                input=stdin,
                output=stdout,
                errors=log,
            )
        self._orders = open(orders, "w", encoding="utf-8")  # noqa: SIM115  # until `close`
        self._answers = open(answers, encoding="utf-8")  # noqa: SIM115
        self.url = str(self._answer())

    def close(self) -> None:
        self._orders.close()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(DEADLINE_S)
        self._answers.close()

    def ask(self, *order: str | float) -> Any:
        """The answer to an order; raises NotServed when the process is ending."""
        # The farm asks from a thread of its own.
        with self._lock:
            try:
                print(json.dumps(order), file=self._orders, flush=True)
                return self._answer()
            except (OSError, ValueError) as error:
                raise NotServed from error

    def frozen(self) -> AbstractContextManager[None]:
        """It answers nothing meanwhile, as an API behind a broken network does."""
        return frozen(self._process.pid)

    def _answer(self) -> Any:
        return json.loads(self._answers.readline())


def serve(
    url: str,
    held: Callable[[], AbstractContextManager[None]],
    answer: Callable[..., Any],
    orders: TextIO,
    answers: TextIO,
) -> None:
    """Tell the URL, then answer each order while the server is `held`."""
    print(json.dumps(url), file=answers, flush=True)
    for line in orders:
        with held():
            told = json.dumps(answer(*json.loads(line)))
        print(told, file=answers, flush=True)
