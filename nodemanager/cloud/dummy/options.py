"""The options of the sections of a `dummy` file."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.cloud.declared import CloudOption
from nodemanager.cloud.section_reader import CREATE, CREDENTIALS, LIST

SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: {"creds": CloudOption(str, text="Anything; it decides nothing.")},
    LIST: {},
    CREATE: {},
}
