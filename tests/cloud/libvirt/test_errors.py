"""What libvirt's codes mean; the codes themselves are held to libvirt's own module."""

from __future__ import annotations

import errno

import pytest

from nodemanager.cloud.libvirt import errors as libvirt_errors
from nodemanager.cloud.libvirt.errors import is_lost, typed
from nodemanager.errors import BadRequest, CapacityUnavailable, CloudError, Unauthorized
from tests.cases import cases

RPC, STORAGE, QEMU = 7, 18, 10


class Refusal(Exception):
    """As libvirtError, which can't be made with a code."""

    def __init__(self, code: int, text: str = "text", domain: int = QEMU, int1: int = 0) -> None:
        super().__init__(text)
        self._all = code, domain, int1

    def get_error_code(self) -> int:
        return self._all[0]

    def get_error_domain(self) -> int:
        return self._all[1]

    def get_int1(self) -> int:
        return self._all[2]


@cases(
    ("error", "undone", "kind"),
    {
        "auth-failed": (Refusal(45), False, Unauthorized),
        "access-denied": (Refusal(88), True, Unauthorized),
        "no-domain": (Refusal(42), False, BadRequest),
        "config-unsupported": (Refusal(67), False, BadRequest),
        "internal": (Refusal(1), False, CloudError),
        "internal-undone": (Refusal(1), True, BadRequest),
        "failed-undone": (Refusal(9), True, BadRequest),
        "no-memory": (
            Refusal(1, "qemu: cannot set up guest memory 'pc.ram': Cannot allocate memory"),
            True,
            CapacityUnavailable,
        ),
        "full": (Refusal(38, "cannot write", STORAGE, errno.ENOSPC), True, CapacityUnavailable),
        "cut": (Refusal(38, "Broken pipe", RPC), False, CloudError),
        "cut-undone": (Refusal(38, "Broken pipe", RPC), True, CloudError),
        "rpc": (Refusal(38, "No space left", RPC, errno.ENOSPC), True, CloudError),
        "time-out": (Refusal(68), True, CloudError),
    },
)
def test_a_code_means_one_thing_u6(error: Refusal, undone: bool, kind: type[CloudError]) -> None:
    ours = typed(error, "create compute1", undone=undone)
    assert type(ours) is kind
    assert str(ours).startswith(f"create compute1: libvirt error {error.get_error_code()}: ")


def test_what_is_no_libvirt_error_is_not_translated_and_may_have_taken_effect() -> None:
    assert typed(TimeoutError("late"), "list") is None
    assert is_lost(TimeoutError("late"))


@pytest.mark.server("libvirt")
def test_the_numbers_are_those_of_libvirt() -> None:
    import inspect
    import re

    import libvirt

    source = inspect.getsource(libvirt_errors)
    commented = re.findall(r"^ +(\d+),  # ([A-Z_]+)", source, re.MULTILINE)
    named = [
        (getattr(libvirt_errors, name), name)
        for name in re.findall(r"^([A-Z_]+) = \d", source, re.M)
    ]
    assert len(commented) > 20
    for number, name in [*commented, *named]:
        assert getattr(libvirt, f"VIR_ERR_{name}") == int(number), name
    assert {libvirt.VIR_FROM_RPC, libvirt.VIR_FROM_REMOTE} == libvirt_errors.FROM_THE_WAY
