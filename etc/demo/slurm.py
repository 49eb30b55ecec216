"""What `make run WHAT=slurm` runs: a Slurm of its own, and the daemon that boots for its jobs.

munged and slurmctld run as this user, below .demo-slurm, and touch no Slurm of the machine. The
nodes are processes of the local cloud; each starts a slurmd, as its image would. Ctrl-C ends all.
"""

from __future__ import annotations

import argparse
import getpass
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import run

NODES = 3
TREE = Path(__file__).resolve().parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "squeue", "scontrol", "sbatch")

CONFIG = """\
# The demo of Slurm: nodes are processes on this machine, and every window is short.
[Daemon]
dispatcher = slurm
max_nodes = {nodes}
poll_time = 2
max_poll_time = 5
poll_stale_after = 30
boot_fail_after = 60
node_stale_after = 60

[Slurm]
conf = {conf}
partitions = elastic
timeout = 5

[Manage]
port = {port}

[Cloud]
provider = local
shutdown_windows = 0, 999999

[Cloud Create]
boot_delay = 3
ping_script = {node}
user_data = {user_data}

[Size small]
cores = 1
ram = 500
price = 0.01

[Registry]
slots = {nodes}
hostname = node%(slot_number)d
listen = 127.0.0.1:0

[Cleaning]
settle = 10
"""
USER_DATA = "{ping_url}\nhostname={hostname}\n"
NODE = """\
#!/bin/sh
# A node's ping, and its slurmd, which is started after the first ping was taken.
/bin/sh {ping} "$@" || exit
for word; do
    [ "$before" = --state-directory ] && home=$word
    [ "$before" = --url-file ] && told=$word
    before=$word
done
if [ ! -e "$home/slurmd" ]; then
    : >"$home/slurmd"
    name=$(sed -n s/^hostname=//p "$told")
    rm -rf {folder}/spool-"$name"
    {slurmd} -D -N "$name" -f {conf} >"$home/slurmd.out" 2>&1 </dev/null &
fi
"""
SLURM_CONF = Path(__file__).with_name("slurm.conf")
"""The demo's Slurm, without what OWN and the nodes add."""
OWN = """\
DefMemPerCPU=100
SlurmdTimeout=30
"""


def missing() -> list[str]:
    return [name for name in PROGRAMS if found(name) is None]


def found(program: str) -> str | None:
    """Its path; Debian's daemons are in sbin, which an ordinary user's PATH may lack."""
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def free_ports(count: int) -> list[int]:
    """Ports in a row that nobody has now, below those that outgoing connections get."""
    for low in range(30_000, 32_000, count):
        with suppress(OSError), ExitStack() as these:
            for port in range(low, low + count):
                these.enter_context(socket.create_server(("127.0.0.1", port)))
            return list(range(low, low + count))
    raise SystemExit("this machine has no free ports")


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


def configure(state: Path, port: int) -> Path:
    """Write the daemon's file, slurm.conf and the node's program; gives the daemon's file."""
    folder = state / "slurm"
    (folder / "state").mkdir(parents=True, mode=0o700)
    controller, *ports = free_ports(1 + NODES)
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    quoted = {"folder": shlex.quote(str(folder)), "conf": shlex.quote(str(conf))}
    ping = shlex.quote(str(TREE / "etc/node/nodemanager-ping"))
    node = NODE.format(ping=ping, slurmd=found("slurmd"), **quoted)
    config = write(
        state / "slurm.cfg",
        CONFIG.format(
            nodes=NODES,
            conf=conf,
            port=port,
            node=write(folder / "node", node, 0o700),
            user_data=write(folder / "user-data", USER_DATA),
        ),
    )
    told = subprocess.run(
        [sys.executable, "-m", "nodemanager", "slurm-config", "--config", str(config)],
        env={**os.environ, "STATE_DIRECTORY": str(state)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    # The nodes of a real cluster have addresses of their own.
    here = f" NodeAddr=127.0.0.1 NodeHostname={host} Port=[{ports[0]}-{ports[-1]}]"
    lines = [line + here * line.startswith("NodeName=") for line in told.splitlines()]
    own = SLURM_CONF.read_text(encoding="utf-8").format(
        cluster="demo", host=host, controller=controller, user=getpass.getuser(), folder=folder
    )
    write(
        conf, own + OWN + "\n".join(lines).replace("MaxTime=", "Default=YES MaxTime=") + "\n", 0o644
    )
    return config


@contextmanager
def slurm(folder: Path) -> Iterator[None]:
    """munged and slurmctld run, until the end."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "seed")]
    socket_at = folder / "munge.socket"
    with ExitStack() as stack:
        stack.callback(end_strays, folder)
        # --force: it takes a socket below a folder that others may write, such as /tmp.
        start(folder, "munged", "--foreground", "--force", f"--socket={socket_at}", *files)
        if not run.until(socket_at.exists, 20):
            sys.exit(f"munged does not start, see {folder}/munged.out")
        start(folder, "slurmctld", "-D", "-f", str(folder / "slurm.conf"))
        if not run.until(lambda: answers(folder), 30):
            sys.exit(f"slurmctld does not start, see {folder}/slurmctld.log")
        yield


def start(folder: Path, program: str, *arguments: str) -> None:
    with (folder / f"{program}.out").open("wb") as out:
        subprocess.Popen(
            [found(program) or program, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def answers(folder: Path) -> bool:
    asked = subprocess.run(
        ["scontrol", "ping"],
        env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return asked.returncode == 0


def strays(folder: Path) -> list[int]:
    """The processes of this demo's Slurm: its folder is in their arguments or environment."""
    ours = str(folder).encode() + b"/"
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) == os.getpid():
            continue
        with suppress(OSError):
            if ours in (process / "cmdline").read_bytes() + (process / "environ").read_bytes():
                pids.append(int(process.name))
    return pids


def end_strays(folder: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in strays(folder):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        deadline = time.monotonic() + 10
        while strays(folder) and time.monotonic() < deadline:
            with suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["start", "end"])
    parser.add_argument("--state", type=Path, default=Path(".demo-slurm"))
    parser.add_argument("--port", type=int, default=9001, help="of the management server")
    chosen = parser.parse_args()
    state: Path = chosen.state.absolute()
    if chosen.what == "end":
        if state.is_dir():
            end_strays(state / "slurm")
        return run.end(state)
    if missing():
        sys.exit(f"not installed: {', '.join(missing())}; `make run WHAT=slurm` installs them")
    run.curl_or_stand_in()
    if state.is_dir():
        end_strays(state / "slurm")
    held = run.take_over(state)
    config = configure(state, chosen.port)
    conf = state / "slurm/slurm.conf"
    with slurm(state / "slurm"):
        run.say(
            "Submit a job from another terminal, and watch its node boot:\n"
            f"  export SLURM_CONF={shlex.quote(str(conf))}\n"
            "  sbatch --output=/dev/null --wrap 'sleep 20'; squeue; sinfo -N"
        )
        return run.watch(state, config, held)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
