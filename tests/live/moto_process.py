"""moto's EC2 as a process of its own: `python -m tests.live.moto_process`."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from botocore.exceptions import BotoCoreError, ClientError

from nodemanager.lib.memory import uncollected
from tests.live.farm import NotServed, Seen
from tests.live.server_process import ServerProcess, serve

REGION = "us-east-1"
KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI"
SLOW_S = 10.0


class Moto(ServerProcess):
    """That process, and an EC2 client that shares nothing with the daemon's."""

    def __init__(self, home: Path) -> None:
        super().__init__("tests.live.moto_process", home, "tests.cloud.ec2.moto_warm")
        # It takes long to import: not where tests are only collected.
        import boto3

        self.ec2 = boto3.client(
            "ec2",
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def lose_next(self, action: str) -> None:
        """The next call of `action` does its work, and nobody hears of it."""
        self.ask("lose", action)

    def fail(self, action: str) -> None:
        """Every call of `action` is answered 500, and does nothing, until `heal`."""
        self.ask("fail", action)

    def heal(self, action: str) -> None:
        self.ask("heal", action)

    def slow(self, action: str, seconds: float = SLOW_S) -> None:
        """Every call of `action` does its work at once, and is answered so much later.

        A refusal is answered at once.
        """
        self.ask("slow", action, seconds)

    def quota(self, nodes: int) -> None:
        """No more instances than that run."""
        self.ask("quota", nodes)

    def allow(self, per_s: float) -> None:
        """Serve so many calls a second, and refuse others with RequestLimitExceeded."""
        self.ask("allow", per_s)

    def spans(self, action: str) -> list[tuple[float, float]]:
        """When each call of `action` that was served began and ended, time.monotonic."""
        return [(began, ended) for began, ended in self.ask("spans", action)]

    def list_nothing(self) -> None:
        """Instances are told of only to who names their ids, from now on."""
        self.ask("list nothing", "")

    def fill(self, place: str) -> None:
        """That zone or subnet takes no node, until `empty`."""
        self.ask("fill", place)

    def empty(self, place: str) -> None:
        self.ask("empty", place)

    def subnets(self) -> list[str]:
        """The ids of the account's subnets, one for each zone."""
        return sorted(one["SubnetId"] for one in self.ec2.describe_subnets()["Subnets"])

    def calls(self, action: str) -> list[dict[str, str]]:
        """The parameters of every call of `action` so far."""
        called: list[dict[str, str]] = self.ask("called", action)
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

    def nodes(self) -> dict[str, Seen]:
        """See farm.Cloud."""
        return {node_id: Seen(tags["Name"], tags) for node_id, tags in self.tags().items()}

    def creates(self) -> int:
        """See farm.Cloud."""
        return len(self.calls("RunInstances"))

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

    def vanish(self, node_id: str) -> None:
        """End an instance behind the manager's back."""
        self.ec2.terminate_instances(InstanceIds=[node_id])

    def close(self) -> None:
        self.ec2.close()
        super().close()


@contextmanager
def _served() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise NotServed from error


def main(orders: TextIO, answers: TextIO) -> None:
    with uncollected():
        from tests.cloud.ec2.moto_server import Allowance, MotoServer, Reply, lost, plain

    server = MotoServer().start()

    def late(seconds: float) -> Callable[[Reply], Reply]:
        def answered(reply: Reply) -> Reply:
            if reply.status.startswith("200"):
                time.sleep(seconds)
            return reply

        return answered

    def answer(name: str, action: Any, seconds: float = 0.0) -> Any:
        match name:
            case "lose":
                server.fault(action, after=lost)
            case "fail":
                server.fault(action, times=sys.maxsize, before=plain(500, ""))
            case "heal":
                server.heal(action)
            case "slow":
                server.fault(action, times=sys.maxsize, after=late(seconds))
            case "quota":
                server.quota = action
            case "allow":
                server.allowance = Allowance(action)
            case "spans":
                return [(began, ended) for of, began, ended in server.spans if of == action]
            case "list nothing":
                server.lists_nothing = True
            case "fill":
                server.full[action] = "InsufficientInstanceCapacity"
            case "empty":
                del server.full[action]
            case "called":
                return [call.params for call in server.called(action)]
        return None

    serve(server.url, nullcontext, answer, orders, answers)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
