"""Options of `[Cloud Create]` whose values go into the cloud's request as they stand.

One declaration each: what the parser takes, the parameter that it becomes, and the text of manual
and sample.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nodemanager.cloud.section_reader import SectionReader


@dataclass(frozen=True, slots=True)
class Passed:
    """`forms` has by pattern of the whole value the parameter that a value of that form becomes.

    `says` is what a value must be, `text` what the option is for, `example` one in a sample.
    """

    forms: Mapping[str, str]
    says: str
    text: str
    example: str


def read(given: SectionReader, options: Mapping[str, Passed]) -> dict[str, str]:
    """The request's parameters of those options that the section has."""
    found: dict[str, str] = {}
    for key, option in options.items():
        text = given.text(key)
        if text is None:
            continue
        params = [param for form, param in option.forms.items() if re.fullmatch(form, text)]
        if not params:
            given.wrong(key, f"not {option.says}", text)
        found |= dict.fromkeys(params[:1], text)
    return found
