"""`nodemanager slurm-resume` and `slurm-suspend`, as ResumeProgram and SuspendProgram.

They hand Slurm's list of nodes to the running daemon and return at once. Slurm keeps in its nodes'
states what it wants, and the daemon reads those at each poll: a call that fails loses nothing but
the time to the next poll. slurmctld does not log what these programs print, so errors go to syslog.
This module is kept small, because slurmctld may run it often.
"""

from __future__ import annotations

import configparser
import http.client
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nodemanager.lib import control
from nodemanager.lib.foreign import is_text, shown

COMMANDS = {"slurm-resume": "resume", "slurm-suspend": "suspend"}
FINE, NOT_TAKEN, USAGE = 0, 1, 2
TIMEOUT_S = 5.0
LONGEST = 1000
ETC = Path("/etc/nodemanager")


def main(command: str, arguments: Sequence[str]) -> int:
    """Hand HOSTLIST over; gives the exit code.

    0: the daemon has it. 1: no daemon took it, and its next poll will see the same. 2: wrong usage.
    """
    try:
        config, nodes = _read(arguments)
        state_dir = _state_dir(config)
    except ValueError as error:
        return _say(command, str(error), USAGE)
    problem = _hand_over(command, nodes, control.places(config, state_dir, os.environ))
    return FINE if problem is None else _say(command, f"{nodes}: {problem}", NOT_TAKEN)


def _read(arguments: Sequence[str]) -> tuple[Path, str]:
    """The configuration file and the nodes. Raises ValueError for wrong usage."""
    left = list(arguments)
    given = os.environ.get("NODEMANAGER_CONFIG")
    if left[:1] in (["--config"], ["-c"]):
        given, left = (left[1] if len(left) > 1 else None), left[2:]
    if len(left) != 1 or not left[0] or left[0].startswith("-"):
        raise ValueError("usage: [--config FILE] HOSTLIST")
    if not is_text(left[0]):
        raise ValueError(f"{shown(left[0])} is not UTF-8, and so no HOSTLIST")
    if len(left[0]) > LONGEST:
        # The daemon needs no names, only that there are some.
        left[0] = left[0][: LONGEST - 3] + "..."
    if given is not None:
        return Path(given), left[0]
    found = sorted(ETC.glob("*.cfg"))
    if len(found) != 1:
        raise ValueError(f"give --config FILE: {ETC} has {len(found)} files")
    return found[0], left[0]


def _state_dir(path: Path) -> Path:
    """Where the daemon of that file keeps its state. Raises ValueError for an unreadable file.

    Only this is read: the file's other options may need what slurmctld's user may not read.
    """
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    # As the manual of configparser says; its type knows a method there, and takes no function.
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        raise ValueError(f"{path}: {error}") from error
    said = dict(parser["Daemon"]) if parser.has_section("Daemon") else {}
    given = said.get("state_dir") or os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    return Path(given) if given else Path("/var/lib/nodemanager") / (said.get("pool") or path.stem)


def _hand_over(command: str, nodes: str, places: Sequence[Path]) -> str | None:
    """Why no daemon took it; None where one did."""
    problem = "no daemon answers at " + " nor at ".join(map(str, places))
    for path in places:
        connection = http.client.HTTPConnection("localhost", timeout=TIMEOUT_S)
        try:
            connection.sock = control.connect(path, TIMEOUT_S)
            body = json.dumps({"nodes": nodes})
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/api/power/{COMMANDS[command]}", body, headers)
            answer = connection.getresponse()
            if answer.status == http.client.ACCEPTED:
                return None
            return f"{path}: HTTP {answer.status}"
        except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
            continue
        except (OSError, http.client.HTTPException) as error:
            problem = f"{path}: {error or type(error).__name__}"
        finally:
            connection.close()
    return problem


def _say(command: str, text: str, code: int) -> int:
    import syslog

    line = f"nodemanager {command}: {text}"
    syslog.openlog("nodemanager", syslog.LOG_PID, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_ERR, line)
    print(line, file=sys.stderr)
    return code
