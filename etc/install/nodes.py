"""nodes.py CONFIG_DIRECTORY STATE_DIRECTORY: which nodes `make uninstall` leaves running.

Runs in the installed environment and asks each pool's cloud. An answer that can't be had is
never told as "none": then it says how to ask by hand.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

BY_HAND = {
    "ec2": "aws ec2 describe-instances --filters Name=tag:nodemanager-pool,Values={pool} "
    "Name=instance-state-name,Values=pending,running,stopping,stopped",
    "gce": "gcloud compute instances list --filter=labels.nodemanager-pool={pool}",
    "azure": 'az vm list --query "[?tags.\\"nodemanager-pool\\"==\'{pool}\'].name"',
}


def listed(path: Path) -> list[str]:
    """A line for each node of the pool in the file `path` that is not terminated."""
    from nodemanager.app import adapters
    from nodemanager.config import load
    from nodemanager.lib.clock import SystemClock

    config = load(path, accepts=adapters.accepted_keys)
    cloud = adapters.build_cloud(config, SystemClock())
    try:
        listing = cloud.list_nodes()
    finally:
        cloud.close()
    nodes = [n for n in listing.items if n.tags.pool == config.daemon.pool and not n.is_absent]
    lines = [f"{node.id} {node.name} ({node.state})" for node in nodes]
    if not listing.complete:
        lines.append("and perhaps more: the list is incomplete")
    return lines or ["no node"]


def by_hand(path: Path) -> str:
    """How to look for the nodes of a file that may not even be a proper one."""
    from configparser import ConfigParser, Error

    file = ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    try:
        file.read(path, encoding="utf-8")
    except (OSError, UnicodeDecodeError, Error):
        return "look for nodes by the tag nodemanager-pool"
    pool = file.get("Daemon", "pool", fallback=None) or path.stem
    how = BY_HAND.get(file.get("Cloud", "provider", fallback="") or "")
    return f"look for nodes by the tag nodemanager-pool={pool}" + (
        f", for instance:\n        {how.format(pool=pool)}" if how else ""
    )


def main() -> int:
    config, state = Path(sys.argv[1]), Path(sys.argv[2])
    for path in sorted(config.glob("*.cfg")):
        if path.name == "registry.cfg":
            continue
        # As its unit would have it; the local cloud's nodes are in there.
        os.environ["STATE_DIRECTORY"] = str(state / path.stem)
        print(f"{path}: nodes that are left alone, and go on running:")
        try:
            lines = listed(path)
        # Whatever it is, uninstalling goes on, and says what it could not find out.
        except Exception as error:
            print(f"    the cloud could not be asked: {type(error).__name__}: {error}")
            lines = [by_hand(path)]
        for line in lines:
            print(f"    {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
