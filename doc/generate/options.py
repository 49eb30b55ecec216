"""The generator of doc/options.rst and etc/*.cfg from the declarations.

`python -m doc.generate.options` writes them; `--check` exits 1 when one is out of date.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from doc.generate.samples import SAMPLES, SHOWN, Hint, Part, Sample
from nodemanager.config.options import Derived, Option, Section
from nodemanager.config.sections import PASS_THROUGH, SECTIONS, SIZE

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 88
PAGE_WIDTH = 95

_PAGE = """\
.. Made by python -m doc.generate.options from the declarations; don't edit it.

Every option
============

A file has the INI format. A ``#`` or ``;`` after white space begins a comment, also after a value;
``%`` is an ordinary character. A duration is in seconds, or written as ``90s``, ``30m``, ``2h`` or
``1d``. Unknown sections and options are errors, and so are repeated ones.

A secret, and any key under ``[Cloud Credentials]``, may be written ``NAME_file = PATH``: its value
is then the content of that file, without the newline at its end. A PATH that does not begin with
``/`` is looked for in ``$CREDENTIALS_DIRECTORY`` (systemd's credentials), then beside the
configuration file. Only in this way can a value contain ``#`` or ``;`` after white space.

A file is UTF-8 text, in lines that end in a line feed. Quotes are part of a value. ``check-config``
warns of what is often read otherwise than it was meant: a comment behind a secret, a value that is
all comment, quotes around a value, characters that can't be seen.

Options that are *read again* take effect when the daemon gets a SIGHUP; the others need a restart.

Where two options contradict each other, the file is refused, or a safe value is used, with a
warning that names it:

* ``node_stale_after`` at or below ``poll_stale_after``: half of ``node_stale_after`` is used as
  ``poll_stale_after``.
* ``[Cleaning] settle`` below one poll of the cloud: one poll of the cloud is used.
* ``max_poll_time`` below the longest poll time: that poll time is used.
* ``poll_stale_after``, as it is used, below two of the longest poll time: refused.
* ``min_nodes`` above ``max_nodes``: refused.

"""


def main(arguments: list[str]) -> int:
    drifted = []
    for path, text in generated().items():
        file = ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == text:
            continue
        drifted.append(path)
        if "--check" not in arguments:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    for path in drifted:
        print(f"{path}: {'out of date' if '--check' in arguments else 'written'}")
    return 1 if drifted and "--check" in arguments else 0


def generated() -> dict[str, str]:
    """The content of every generated file, by its path relative to the root."""
    files = {f"etc/{sample.name}.cfg": sample_text(sample) for sample in SAMPLES}
    files["doc/options.rst"] = page()
    return files


def page() -> str:
    """The content of doc/options.rst."""
    parts = [_PAGE]
    for section in SECTIONS:
        parts.append(_title(section.name) + _wrapped(section.doc) + "\n\n")
        parts += [_entry(option) for option in section.options]
        if section.name == "Cloud":
            parts += [f"{_title(name)}{_wrapped(doc)}\n\n" for name, doc in PASS_THROUGH.items()]
            parts.append(f"{_title('Size NAME')}{_wrapped(SIZE.doc)}\n\n")
            parts += [_entry(option) for option in SIZE.options]
    return "".join(parts).rstrip() + "\n"


def sample_text(sample: Sample) -> str:
    """The sample as a file: each option below the help text of its declaration."""
    lines = [*_comment(sample.intro), *_comment("Every option: doc/options.rst.")]
    for part in sample.parts:
        lines += ["", f"[{part.section}]"]
        for number, (name, value) in enumerate(part.values.items()):
            lines += [""] if number else []
            lines += _shown(part, name, value)
    return "\n".join(lines) + "\n"


def _shown(part: Part, name: str, value: str | Hint) -> list[str]:
    if part.section in PASS_THROUGH:
        text = part.texts[name]
        default = ""
    else:
        option = _declared(part.section).option(name)
        if option is None:
            raise KeyError(f"[{part.section}] {name}")
        text = f"{option.help} ({option.kind.doc}; {_default(option)})"
        default = "" if isinstance(option.default, Derived) else option.default or ""
    if isinstance(value, Hint):
        written = default if value is SHOWN else value.value
        return [*_comment(text), f"#{name} = {written}".rstrip()]
    return [*_comment(text), f"{name} = {value}".rstrip()]


def _declared(name: str) -> Section:
    if name.startswith("Size "):
        return SIZE
    return next(section for section in SECTIONS if section.name == name)


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), WIDTH - 2)]


def _title(name: str) -> str:
    title = f"[{name}]"
    return f"{title}\n{'-' * len(title)}\n\n"


def _entry(option: Option) -> str:
    facts = f"{option.kind.doc}; {_rst_default(option)}"
    facts += "; *read again*" if option.reload else ""
    body = textwrap.indent("\n\n".join(map(_wrapped, (facts, option.help))), "    ")
    return f"``{option.name}``\n{body}\n\n"


def _wrapped(text: str) -> str:
    words = textwrap.TextWrapper(PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
    return words.fill(" ".join(text.split()))


def _default(option: Option) -> str:
    if option.default is None:
        return "required"
    if isinstance(option.default, Derived):
        return f"default: {option.default.doc}"
    return f"default {option.default}" if option.default else "default: blank"


def _rst_default(option: Option) -> str:
    if isinstance(option.default, str) and option.default:
        return f"default ``{option.default}``"
    return _default(option)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
