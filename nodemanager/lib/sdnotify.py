"""Messages to systemd about the service's state (sd_notify(3)); without systemd, no effect.

notify("READY=1", "STATUS=polling")
reloading(); ...; notify("READY=1")
"""

from __future__ import annotations

import os
import socket
import time


def notify(*lines: str) -> bool:
    """Send `NAME=value` lines in one datagram to $NOTIFY_SOCKET; True if it was sent.

    Never raises: a service manager that no longer listens must not stop the service.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    # The leading @ stands for the zero byte of an abstract socket's name (unix(7)).
    name = "\0" + address[1:] if address[0] == "@" else address
    message = "\n".join(" ".join(line.split("\n")) for line in lines)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            # A full queue must not block the thread that sends the watchdog messages.
            sender.settimeout(1)
            sender.sendto(message.encode("utf-8", "backslashreplace"), name)
    except OSError:
        return False
    return True


def reloading() -> bool:
    """Report the start of a reload; `READY=1` ends it. Type=notify-reload requires the time."""
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    return notify("RELOADING=1", f"MONOTONIC_USEC={now_us}")


def watchdog_interval() -> float | None:
    """Seconds within which `WATCHDOG=1` must be sent (send it at half); None: no watchdog.

    None also where $WATCHDOG_PID names another process: a child inherits the variables.
    """
    try:
        meant_for = int(os.environ.get("WATCHDOG_PID") or os.getpid())
        interval_us = int(os.environ.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    if meant_for != os.getpid() or interval_us <= 0:
        return None
    return interval_us / 1_000_000
