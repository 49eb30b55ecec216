"""The Unix socket over which operators' commands reach the daemon: its path and its users.

File permissions decide who may connect. The socket belongs to the service's group (0660). It is in
the run directory that systemd makes (0750) or, without that, in the state directory (0700). The
kernel tells which user has connected.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from nodemanager.errors import StartError

NAME = "control.sock"
_RUN = Path("/run/nodemanager")
_BACKLOG = 128


def place(state_dir: Path, environ: Mapping[str, str]) -> Path:
    """The daemon's socket path: in systemd's $RUNTIME_DIRECTORY, else in the state directory."""
    given = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    return (Path(given) if given else state_dir) / NAME


def places(config: Path, state_dir: Path, environ: Mapping[str, str]) -> list[Path]:
    """The paths where a client looks for the daemon of the file `config`, the likeliest first."""
    given = [place(state_dir, environ)] if environ.get("RUNTIME_DIRECTORY") else []
    found = [*given, _RUN / config.stem / NAME, state_dir / NAME]
    return list(dict.fromkeys(found))


def connect(path: Path, timeout: float) -> socket.socket:
    """A socket connected to `path`, with `timeout` in seconds.

    Raises OSError; of its kinds, ConnectionRefusedError where nobody listens any more.
    """
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connected.settimeout(timeout)
        with _short(path) as short:
            connected.connect(short)
    except BaseException:
        connected.close()
        raise
    return connected


def listen(path: Path, *, takes_over: bool) -> socket.socket | None:
    """The listening socket; None where another program listens and we don't take over.

    The daemon that holds the lease takes over: a socket that it finds there belongs to a former
    run or to a dry run. Raises StartError.
    """
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not takes_over and _somebody_listens(path):
            listening.close()
            return None
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise OSError(errno.EEXIST, "there is a file of that name")
            os.unlink(path)
        with _short(path) as short:
            listening.bind(short)
            os.chmod(short, 0o660)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise StartError(f"can't listen on {path}: {error.strerror or error}") from error
    return listening


def user_of(connected: socket.socket) -> str:
    """The name of the user at the other end, or `uid N`."""
    size = struct.calcsize("3i")
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid = struct.unpack("3i", raw)[1]
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _somebody_listens(path: Path) -> bool:
    try:
        connect(path, 1.0).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for `path` that fits into the 108 bytes of a socket address."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
