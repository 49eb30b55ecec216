"""The options of the sections of a `dummy` file."""

from __future__ import annotations

from collections.abc import Mapping

from nodemanager.cloud.declared import CREATE, CREDENTIALS, LIST, CloudOption

SECTIONS: Mapping[str, Mapping[str, CloudOption]] = {
    CREDENTIALS: {"creds": CloudOption(str, text="Anything; it decides nothing.")},
    LIST: {},
    CREATE: {},
}
