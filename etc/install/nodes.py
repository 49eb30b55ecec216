"""nodes.py CONFIG_DIRECTORY STATE_DIRECTORY: which nodes `make uninstall` leaves running.

Reads the configuration files and this machine's processes. It asks no cloud: the credentials may
be the service's alone, and a list that failed would look like "none". It says how to ask.
"""

from __future__ import annotations

import configparser
import os
import sys
from pathlib import Path

ASK = {
    "ec2": (
        "aws ec2 describe-instances --filters Name=tag:nodemanager-pool,Values={pool} "
        "Name=instance-state-name,Values=pending,running,stopping,stopped"
    ),
}


def option(file: configparser.ConfigParser, section: str, name: str, default: str) -> str:
    return file.get(section, name, fallback=default).split(" #")[0].split(" ;")[0].strip()


def local_nodes(cloud: Path) -> list[str]:
    """The processes that live in a local cloud's directory, each as "pid: command"."""
    found = []
    mark = os.fsencode(cloud)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            where = os.fsencode((process / "cwd").readlink())
        except OSError:
            continue
        if mark in command or where.startswith(mark):
            shown = command.replace(b"\0", b" ").decode(errors="replace").strip()
            found.append(f"process {process.name}: {shown}")
    return found


def told(path: Path, state: Path) -> list[str]:
    """What to say about the pool of one configuration file."""
    file = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    file.read(path, encoding="utf-8")
    pool = option(file, "Daemon", "pool", "") or path.stem
    provider = option(file, "Cloud", "provider", "")
    if not provider:
        return []
    if provider == "local":
        folder = Path(option(file, "Daemon", "state_dir", "") or state / path.stem) / "local-cloud"
        nodes = local_nodes(folder) if folder.is_dir() else []
        lines = nodes or ["no process of its local cloud runs"]
    else:
        region = option(file, "Cloud Credentials", "region", "")
        lines = [
            f"its {provider} nodes{f' in {region}' if region else ''}, if any, go on running and"
            f" costing; each bears the tag nodemanager-pool={pool}"
        ]
        if provider in ASK:
            lines.append(
                ASK[provider].format(pool=pool) + (f" --region {region}" if region else "")
            )
    return [f"Pool {pool} ({path}):", *(f"    {line}" for line in lines)]


def main() -> int:
    config, state = Path(sys.argv[1]), Path(sys.argv[2])
    for path in sorted(config.glob("*.cfg")):
        try:
            lines = told(path, state)
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            lines = [f"Pool {path.stem} ({path}): can't be read, look for its nodes: {error}"]
        for line in lines:
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
