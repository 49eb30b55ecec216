"""The generator of the ping script's text in the sample of user data.

python -m doc.generate.user_data etc/node

The script is in it compressed, as cloud-init takes it: EC2 takes 16 KiB of user data.
"""

from __future__ import annotations

import base64
import gzip
import re
import sys
import textwrap
from pathlib import Path

_CONTENT = re.compile(r"(?<=encoding: gz\+b64\n    content: \|\n)(?: {6}.*\n)+")


def with_script(sample: str, script: bytes) -> str:
    """The text of the sample with that script."""
    packed = base64.b64encode(gzip.compress(script, mtime=0)).decode()
    text = textwrap.indent("\n".join(textwrap.wrap(packed, 94)) + "\n", " " * 6)
    return _CONTENT.sub(text, sample)


def main(arguments: list[str]) -> None:
    place = Path(arguments[0])
    sample = place / "user-data.yaml"
    script = (place / "nodemanager-ping").read_bytes()
    sample.write_text(with_script(sample.read_text(encoding="utf-8"), script), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
