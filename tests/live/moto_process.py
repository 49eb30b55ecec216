"""moto's EC2 as a process of its own: `python -m tests.live.moto_process`.

It says {"url": ...} once it serves. Each line on its standard input is an order and gets one line
of answer: {"lose": ACTION} cuts the connection of that action's next call once its work is done,
{"called": ACTION} asks for the parameters of its calls so far. It ends with its input.
"""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from tests.live.farm import NotServed
from tests.live.harness import environment
from tests.waiting import DEADLINE_S

REGION = "us-east-1"
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI"


class Moto:
    """That process, and an EC2 client that shares nothing with the daemon's."""

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        with open(home / "moto.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.moto_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
                start_new_session=True,
            )
        self.url = str(self._answer()["url"])
        self.ec2 = boto3.client(
            "ec2",
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def lose_next(self, action: str) -> None:
        """The next call of `action` does its work, and nobody hears of it."""
        self._ask({"lose": action})

    def fail(self, action: str) -> None:
        """Every call of `action` is answered 500, and does nothing, until `heal`."""
        self._ask({"fail": action})

    def heal(self, action: str) -> None:
        self._ask({"heal": action})

    def calls(self, action: str) -> list[dict[str, str]]:
        """The parameters of every call of `action` so far."""
        called: list[dict[str, str]] = self._ask({"called": action})["calls"]
        return called

    def instances(self) -> dict[str, dict[str, Any]]:
        """Every instance that is not terminated, by id, as DescribeInstances has it."""
        pages = self.ec2.get_paginator("describe_instances").paginate()
        found = (
            instance
            for page in pages
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
        )
        return {one["InstanceId"]: one for one in found if one["State"]["Name"] != "terminated"}

    def tags(self) -> dict[str, dict[str, str]]:
        """The tags of each of them."""
        return {
            node_id: {tag["Key"]: tag["Value"] for tag in one.get("Tags", [])}
            for node_id, one in self.instances().items()
        }

    def running(self) -> list[str]:
        """See farm.Api."""
        with _served():
            found = self.instances().items()
        return [node_id for node_id, one in found if one["State"]["Name"] == "running"]

    def user_data(self, node_id: str) -> bytes:
        """See farm.Api."""
        with _served():
            told = self.ec2.describe_instance_attribute(InstanceId=node_id, Attribute="userData")
        return base64.b64decode(told["UserData"]["Value"])

    def terminate(self, node_id: str) -> None:
        """End an instance behind the manager's back."""
        self.ec2.terminate_instances(InstanceIds=[node_id])

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It answers nothing meanwhile, as an API behind a broken network does."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.ec2.close()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(DEADLINE_S)
        self._process.stdout.close()

    def _ask(self, order: dict[str, str]) -> Any:
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"moto's process ended with {self._process.wait(DEADLINE_S)}"
        return json.loads(line)


@contextmanager
def _served() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise NotServed from error


def serve(orders: TextIO, answers: TextIO) -> None:
    from tests.cloud.ec2.moto_server import MotoServer, lost, plain

    def answer(**what: object) -> None:
        print(json.dumps(what), file=answers, flush=True)

    server = MotoServer().start()
    answer(url=server.url)
    for line in orders:
        order = json.loads(line)
        if "lose" in order:
            server.fault(order["lose"], after=lost)
            answer()
        elif "fail" in order:
            server.fault(order["fail"], times=sys.maxsize, before=plain(500, ""))
            answer()
        elif "heal" in order:
            server.heal(order["heal"])
            answer()
        else:
            answer(calls=[call.params for call in server.called(order["called"])])


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
