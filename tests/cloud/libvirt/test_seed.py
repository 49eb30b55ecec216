"""The NoCloud image: what cloud-init looks for, and what it finds there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from nodemanager.cloud.libvirt.volumes import SECTOR, iso_image, seed_image
from tests.cloud.iso import files_of, label_of


@pytest.mark.parametrize("length", [0, 1, SECTOR - 1, SECTOR, SECTOR + 1, 100_000])
def test_the_image_holds_the_user_data_and_what_the_node_is_called(length: int) -> None:
    user_data = "ä" * length
    image = seed_image("an-id", "compute3", user_data)
    files = files_of(image)
    assert label_of(image) == "cidata"
    assert set(files) == {"user-data", "meta-data"}
    assert files["user-data"].decode() == user_data
    assert json.loads(files["meta-data"]) == {"instance-id": "an-id", "local-hostname": "compute3"}
    assert len(image) % SECTOR == 0


def test_util_linux_knows_its_label_by_which_cloud_init_finds_it(tmp_path: Path) -> None:
    blkid = shutil.which("blkid", path="/usr/sbin:/sbin:/usr/bin")
    if blkid is None:
        pytest.skip("blkid of util-linux is not installed, whose word on the label is asked")
    path = tmp_path / "seed.iso"
    path.write_bytes(iso_image({"user-data": b"x"}))
    told = subprocess.run([blkid, "-p", "-o", "export", path], capture_output=True, text=True)
    assert {"LABEL=cidata", "TYPE=iso9660"} <= set(told.stdout.split())
