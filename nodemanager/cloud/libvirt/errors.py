"""What libvirt's error codes mean to us (SAFETY.md D6, U6).

The numbers are those of libvirt's `virErrorNumber`, which never change. They are written out here,
so that this module needs no libvirt.
"""

from __future__ import annotations

import errno
import re

from nodemanager.errors import BadRequest, CapacityUnavailable, CloudError, Unauthorized

INVALID_ARG = 8
XML_ERROR = 27
OPERATION_DENIED = 29
SYSTEM_ERROR = 38
NO_DOMAIN = 42
NO_STORAGE_POOL = 49
NO_STORAGE_VOL = 50

UNAUTHORIZED = frozenset(
    {
        OPERATION_DENIED,  # a read-only connection
        45,  # AUTH_FAILED
        79,  # AUTH_CANCELLED
        88,  # ACCESS_DENIED
        94,  # AUTH_UNAVAILABLE
    }
)

REFUSED = frozenset(
    {
        3,  # NO_SUPPORT: this hypervisor can't do it
        INVALID_ARG,
        16,  # OS_TYPE
        XML_ERROR,
        28,  # DOM_EXIST
        35,  # XML_DETAIL
        NO_DOMAIN,
        43,  # NO_NETWORK
        NO_STORAGE_POOL,
        NO_STORAGE_VOL,
        55,  # OPERATION_INVALID: not in this state, such as a pool that is not active
        67,  # CONFIG_UNSUPPORTED
        74,  # ARGUMENT_UNSUPPORTED
        84,  # OPERATION_UNSUPPORTED
        90,  # STORAGE_VOL_EXIST
        91,  # CPU_INCOMPATIBLE
        92,  # XML_INVALID_SCHEMA
    }
)
"""Nothing was done, and nothing will be."""

LOST = frozenset(
    {
        6,  # INVALID_CONN
        39,  # RPC
        40,  # GNUTLS_ERROR
        68,  # OPERATION_TIMEOUT
        78,  # OPERATION_ABORTED
        85,  # SSH
        98,  # LIBSSH
    }
)
FROM_THE_WAY = frozenset({7, 13})
"""VIR_FROM_RPC and VIR_FROM_REMOTE: the part of libvirt that carries calls to the daemon. What it
reports, such as a broken pipe, says nothing of what the daemon did."""

NO_ROOM = frozenset({errno.ENOMEM, errno.ENOSPC, errno.EDQUOT})
_NO_ROOM = re.compile(r"cannot allocate memory|no space left|not enough (free )?space", re.I)


def code_of(error: BaseException) -> int | None:
    """The code of a libvirtError; None for any other exception."""
    asked = getattr(error, "get_error_code", None)
    return None if asked is None else int(asked() or 0)


def is_lost(error: BaseException) -> bool:
    """Whether the call may have taken effect although it failed."""
    code = code_of(error)
    # With a code it is a libvirtError, which has that method.
    return code is None or code in LOST or error.get_error_domain() in FROM_THE_WAY  # type: ignore[attr-defined]


def typed(error: BaseException, doing: str, *, undone: bool = False) -> CloudError | None:
    """The CloudError for a libvirtError; None for any other exception.

    `undone` says that nothing is left of what was tried, which makes every refusal definite. A
    qemu that could not start has no code of its own: only its text tells a full host.
    """
    code = code_of(error)
    if code is None:
        return None
    message = " ".join(str(error).split())
    text = f"{doing}: libvirt error {code}: {message[:300]}"
    if code in UNAUTHORIZED:
        return Unauthorized(text)
    if is_lost(error):
        return CloudError(text)
    # With a code it is a libvirtError, which has that method.
    number = error.get_int1() if code == SYSTEM_ERROR else None  # type: ignore[attr-defined]
    if undone and (number in NO_ROOM or _NO_ROOM.search(message)):
        return CapacityUnavailable(text)
    return BadRequest(text) if undone or code in REFUSED else CloudError(text)
