"""The entries of doc/options.rst, and the samples etc/*.cfg, from the declarations.

`python -m doc.generate.options` writes the samples; `--check` exits 1 when one is out of date.
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
    """The content of every sample, by its path relative to the root."""
    return {f"etc/{sample.name}.cfg": sample_text(sample) for sample in SAMPLES}


def entries() -> str:
    """Every option, section by section, as reStructuredText."""
    parts = []
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
