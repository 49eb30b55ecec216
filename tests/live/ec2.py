"""A cluster in an EC2 account of its own, on moto's server."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from tests.live.clouds import CloudCluster
from tests.live.cluster import Sections
from tests.live.harness import TREE
from tests.live.moto_process import KEY, REGION, SECRET, Moto

Ec2Cluster: TypeAlias = CloudCluster[Moto]


def on_ec2(url: str) -> dict[str, dict[str, object]]:
    """The sections of a pool whose EC2 API is at that URL; its nodes go once they are idle."""
    return {
        # In minutes.
        "Cloud": {"provider": "ec2", "shutdown_windows": "0, 999999"},
        "Cloud Credentials": {"region": REGION, "endpoint": url, "key": KEY, "secret": SECRET},
        "Cloud List": {"tag_project": "live"},
        "Cloud Create": {
            "image_id": "ami-12345678",
            "user_data": TREE / "etc/node/user-data.yaml",
        },
        "Size m5.large": {"cores": 2, "ram": 8192, "price": 0.096},
        "Cleaning": {"visible_after": 0.5},
    }


def ec2_cluster(home: Path, *layers: Sections, **how: Any) -> Ec2Cluster:
    """`how` is as in CloudCluster."""
    cloud = Moto(home)
    budget: Sections = {"Daemon": {"max_total_price": 1}}
    return CloudCluster(home, cloud, on_ec2(cloud.url), budget, *layers, **how)
