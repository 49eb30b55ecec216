"""What libvirt's codes mean; the codes themselves are held to libvirt's own module."""

from __future__ import annotations

import errno

import pytest

from nodemanager.cloud.libvirt import errors as libvirt_errors
from nodemanager.cloud.libvirt.errors import is_lost, typed
from nodemanager.errors import BadRequest, CapacityUnavailable, CloudError, Unauthorized

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


@pytest.mark.parametrize(
    ("error", "undone", "kind"),
    [
        pytest.param(Refusal(45), False, Unauthorized, id="auth-failed"),
        pytest.param(Refusal(88), True, Unauthorized, id="access-denied"),
        pytest.param(Refusal(42), False, BadRequest, id="no-domain"),
        pytest.param(Refusal(67), False, BadRequest, id="config-unsupported"),
        pytest.param(Refusal(1), False, CloudError, id="internal"),
        pytest.param(Refusal(1), True, BadRequest, id="internal-undone"),
        pytest.param(Refusal(9), True, BadRequest, id="failed-undone"),
        pytest.param(
            Refusal(1, "qemu: cannot set up guest memory 'pc.ram': Cannot allocate memory"),
            True,
            CapacityUnavailable,
            id="no-memory",
        ),
        pytest.param(
            Refusal(38, "cannot write", STORAGE, errno.ENOSPC), True, CapacityUnavailable, id="full"
        ),
        pytest.param(Refusal(38, "Broken pipe", RPC), False, CloudError, id="cut"),
        pytest.param(Refusal(38, "Broken pipe", RPC), True, CloudError, id="cut-undone"),
        pytest.param(Refusal(38, "No space left", RPC, errno.ENOSPC), True, CloudError, id="rpc"),
        pytest.param(Refusal(68), True, CloudError, id="time-out"),
    ],
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
