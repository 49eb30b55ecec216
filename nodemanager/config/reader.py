"""The reader of options by their declarations; it reports every problem and reads on."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nodemanager.config import kinds
from nodemanager.config.ini import IniFile, IniOption
from nodemanager.config.options import Derived, Option, Section
from nodemanager.config.report import Place, Report, shown
from nodemanager.config.sections import PASS_THROUGH, SECTIONS, SIZE, SizeSection
from nodemanager.config.values import NO_SECRETS, Credentials, Secret
from nodemanager.lib.near import did_you_mean
from nodemanager.lib.redact import MASK, is_secret

FILE_SUFFIX = "_file"
CREDENTIALS = "Cloud Credentials"
_OPTION = re.compile(r"[\w.:-]+\s*=")
UNSEEN = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Unicode's categories of control and format characters and of separators of lines."""
LITERAL_FILE_KEYS = frozenset({"credential_file"})
"""Keys that a libcloud driver itself takes by this name (GCE)."""


@dataclass(slots=True)
class Draft:
    """What was read so far. A value is None where it is unset, or wrong and reported.

    `unread` gets the files of NAME_file that can't be read: the file itself may be right.
    """

    ini: IniFile
    report: Report
    unread: Report
    pool_from_name: str
    environ: Mapping[str, str]
    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    keys: dict[str, dict[str, str]] = field(default_factory=dict)
    sizes: list[SizeSection] = field(default_factory=list)
    log_levels: dict[str, str] = field(default_factory=dict)

    def value(self, section: str, option: str) -> Any:
        return self.values.get((section, option))

    def place(self, section: str, option: str) -> Place:
        return self.places[section, option]

    def is_set(self, section: str, option: str) -> bool:
        """Whether the file itself sets the option."""
        place = self.places.get((section, option))
        return place is not None and place.line is not None


def is_wrong(draft: Draft, section: str, option: str) -> bool:
    """Whether the file sets it to a bad value, which was reported already."""
    place = draft.places.get((section, option))
    return (
        place is not None
        and place.line is not None
        and place.written != ""
        and draft.value(section, option) is None
    )


def read_all(draft: Draft, *, require_cloud: bool) -> None:
    """Read every section of `draft.ini` into the draft."""
    known = [section.name for section in SECTIONS]
    for name in draft.ini.sections:
        if name in known or name in PASS_THROUGH:
            continue
        if name.split(None, 1)[:1] == ["Size"]:
            _read_size(draft, name)
            continue
        hint = did_you_mean(name, [*known, *PASS_THROUGH, "Size NAME"])
        draft.report.at_line(draft.ini.lines[name], f"[{name}]: no such section{hint}")
    for section in SECTIONS:
        _read_section(draft, section, require_cloud=require_cloud)
    for name in PASS_THROUGH:
        _read_keys(draft, name)


def _read_section(draft: Draft, section: Section, *, require_cloud: bool) -> None:
    written = _by_option(draft, section, draft.ini.sections.get(section.name, []))
    for option in section.options:
        key = (section.name, option.name)
        if option.name in written and not _means_default(option, written[option.name]):
            place, value = _written(draft, section, option, written[option.name])
        elif option.default is not None:
            place, value = _default(draft, option)
        else:
            place, value = Place(section.name, option.name, ""), ""
            if require_cloud:
                line = draft.ini.lines.get(section.name, 1)
                what = option.help[:1].lower() + option.help[1:]
                draft.report.at_line(line, f"{place}: must be given: {what}")
        draft.places[key] = place
        draft.values[key] = value


def _means_default(option: Option, entry: IniOption) -> bool:
    default = option.default
    return isinstance(default, Derived) and default.or_zero and entry.value.strip() == "0"


def _by_option(draft: Draft, section: Section, entries: list[IniOption]) -> dict[str, IniOption]:
    """The entries by the option that they set; reports and drops unknown and repeated ones."""
    found: dict[str, IniOption] = {}
    for entry in entries:
        option = _option_of(section, entry.name)
        if option is None:
            if _in_a_name(draft, section, entry):
                continue
            if section.name == "Logging":
                _read_logger(draft, section, entry)
            else:
                _unknown(draft, section, entry)
        elif option.name in found:
            _repeated(draft, section.name, found[option.name], entry, option.kind.secret)
        else:
            found[option.name] = entry
    return found


def _in_a_name(draft: Draft, section: Section, entry: IniOption) -> bool:
    """Whether the name holds a part of the value, as in `token:abc==`; reports it if so."""
    name, colon, _ = entry.name.partition(":")
    option = _option_of(section, name)
    if not colon or option is None:
        return False
    _no_space(draft, Place(section.name, name, MASK, entry.line))
    return True


def _no_space(draft: Draft, place: Place) -> None:
    draft.report.wrong(place, "write white space behind the colon, or = instead")


def _option_of(section: Section, name: str) -> Option | None:
    option = section.option(name)
    if option is None and name.lower().endswith(FILE_SUFFIX):
        option = section.option(name[: -len(FILE_SUFFIX)])
        if option is not None and not option.kind.secret:
            return None
    return option


def _repeated(draft: Draft, section: str, first: IniOption, again: IniOption, secret: bool) -> None:
    secret = secret and not again.name.lower().endswith(FILE_SUFFIX)
    place = Place(section, again.name, shown(again.value, secret=secret), again.line)
    if first.name.lower() == again.name.lower():
        draft.report.wrong(place, f"already set at line {first.line}")
    else:
        draft.report.wrong(place, f"[{section}] {first.name} is set, too, at line {first.line}")


def _unknown(draft: Draft, section: Section, entry: IniOption) -> None:
    names = [option.name for option in section.options]
    secrets = any(option.kind.secret for option in section.options)
    names += [f"{each.name}{FILE_SUFFIX}" for each in section.options if each.kind.secret]
    place = Place(section.name, entry.name, shown(entry.value, secret=secrets), entry.line)
    others = [each.name for each in SECTIONS if each is not section and each.option(entry.name)]
    hint = f"; it belongs in [{others[0]}]" if others else did_you_mean(entry.name, names)
    draft.report.wrong(place, f"no such option{hint}")


def _written(draft: Draft, section: Section, option: Option, entry: IniOption) -> tuple[Place, Any]:
    from_file = entry.name.lower() != option.name.lower()
    secret = option.kind.secret and not from_file
    place = Place(
        section.name,
        entry.name if from_file else option.name,
        shown(entry.value, secret=secret),
        entry.line,
    )
    value = _content(draft, place, entry.value) if from_file else entry.value
    if value is None:
        return place, None
    if from_file and "\n" in value and not option.kind.multiline:
        draft.report.wrong(place, "has more than one line")
        return place, None
    if option.kind.secret and _lost(draft, place, entry):
        return place, None
    if "\n" in value and not option.kind.multiline and not from_file:
        draft.report.wrong(place, "spans more than one line; an option must not be indented")
        return place, None
    try:
        parsed = option.kind.parse(" ".join(value.split("\n")) if not from_file else value)
    except ValueError as error:
        draft.report.wrong(place, str(error))
        return place, None
    _doubt(draft, place, entry, secret=secret, file=f"{option.name}{FILE_SUFFIX}")
    if isinstance(parsed, str | Secret):
        _doubt_text(draft, place, value, secret=option.kind.secret)
    if option.no_effect and entry.value.lower() not in option.no_effect_unless:
        draft.report.warn(place, option.no_effect)
    return place, parsed


def _default(draft: Draft, option: Option) -> tuple[Place, Any]:
    value: Any
    if isinstance(option.default, Derived):
        value = option.default.of(draft)
        text = value if isinstance(value, str) else None
    else:
        value, text = None, option.default or ""
    if text is not None:
        try:
            value = option.kind.parse(text)
        except ValueError as error:
            place = Place(option.section, option.name, text)
            draft.report.wrong(place, f"{error}; set it in the file")
            return place, None
    written = "" if value is None else option.kind.show(value)
    return Place(option.section, option.name, shown(written, secret=False)), value


def _content(draft: Draft, place: Place, name: str) -> str | None:
    """The content of the file that NAME_file names, without the newline at its end."""
    if not name:
        draft.report.wrong(place, "must name a file")
        return None
    path = draft.ini.path.parent / name
    credentials = draft.environ.get("CREDENTIALS_DIRECTORY")
    try:
        if credentials and (Path(credentials) / name).exists():
            path = Path(credentials) / name
        content = path.read_bytes().decode("utf-8-sig").rstrip("\r\n")
    except OSError as error:
        draft.unread.wrong(place, f"can't be read: {error.strerror}")
        return None
    except UnicodeDecodeError:
        content = "\0"
    if "\0" in content:
        draft.report.wrong(place, "is not UTF-8 text")
        return None
    if not content:
        draft.report.wrong(place, "is empty")
        return None
    return content


def _doubt(draft: Draft, place: Place, entry: IniOption, *, secret: bool, file: str) -> None:
    """Warn where the comment behind the value may have been meant as a part of it.

    `file` is the name by which a file can hold the value instead.
    """
    value, comment = entry.value, entry.comment
    begins = f"'{comment[:1]}' begins a comment, so"
    if comment and secret and value:
        instead = f"; put a secret that holds it into a file: {file}" if file else ""
        draft.report.warn(place, f"{begins} what follows it is not part of the secret{instead}")
    elif comment and not value and not comment[1:2].isspace():
        draft.report.warn(place, f"{begins} this is blank")


def _doubt_text(draft: Draft, place: Place, value: str, *, secret: bool) -> None:
    """Warn where the value may not be what its writer meant; show no character of a secret."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        draft.report.warn(place, "the quotes are part of the value; leave them out")
    unseen = [one for one in value if unicodedata.category(one) in UNSEEN and one not in "\t\n"]
    if unseen:
        which = "" if secret else f" (U+{ord(unseen[0]):04X})"
        draft.report.warn(place, f"holds a character that can't be seen{which}")
    if value != value.strip():
        draft.report.warn(place, "begins or ends with white space")


def _lost(draft: Draft, place: Place, entry: IniOption) -> bool:
    if entry.cut:
        draft.report.wrong(
            place, f"'#' and ';' begin a comment; put such a value in a file: {place.option}_file"
        )
    return entry.cut


def _read_logger(draft: Draft, section: Section, entry: IniOption) -> None:
    place = Place(section.name, entry.name, shown(entry.value, secret=False), entry.line)
    first = draft.places.get((section.name, entry.name))
    if first is not None and first.line is not None:
        draft.report.wrong(place, f"already set at line {first.line}")
        return
    draft.places[section.name, entry.name] = place
    try:
        draft.log_levels[entry.name] = kinds.log_level().parse(entry.value).value
    except ValueError as error:
        hint = did_you_mean(entry.name, [option.name for option in section.options])
        draft.report.wrong(
            place, f"{error}{hint}" if "did you mean" not in str(error) else str(error)
        )


def _read_size(draft: Draft, header: str) -> None:
    name = header.split(None, 1)[1].strip() if len(header.split(None, 1)) > 1 else ""
    line = draft.ini.lines[header]
    if not name:
        draft.report.at_line(line, f"[{header}]: must name a size, like [Size m4.large]")
        return
    if any(name in (size.name, size.group) for size in draft.sizes):
        draft.report.at_line(line, f"[{header}]: this size has a section already")
        return
    section = Section(f"Size {name}", SIZE.attribute, SIZE.doc, SIZE.type, SIZE.options)
    given: dict[str, Any] = dict.fromkeys(option.attribute for option in SIZE.options)
    for option_name, entry in _by_option(draft, section, draft.ini.sections[header]).items():
        option = section.option(option_name)
        assert option is not None
        place, value = _written(draft, section, option, entry)
        draft.places[section.name, option.name] = place
        given[option.attribute] = value
    draft.sizes += _one_each(draft, SizeSection(name=name, **given))


def _one_each(draft: Draft, size: SizeSection) -> list[SizeSection]:
    """The section, or one for each of its instance types, at the same places of the file."""
    section = f"Size {size.name}"
    if size.instance_types is None:
        return [size]
    types = draft.place(section, "instance_types")
    if size.instance_type is not None:
        draft.report.clash(
            draft.place(section, "instance_type"), types, "{one} contradicts {other}"
        )
    if size.spare_nodes:
        text = "give it to the [Size] of one instance type: each of these would keep so many"
        draft.report.wrong(draft.place(section, "spare_nodes"), text)
    written = {
        option: place
        for (name, option), place in draft.places.items()
        if name == section and option != "instance_types"
    }
    found: list[SizeSection] = []
    for kind in dict.fromkeys(size.instance_types):
        name = f"{size.name}/{kind}"
        if any(one.name == name for one in draft.sizes):
            draft.report.wrong(types, f"[Size {name}] is a section already")
        draft.places |= {(f"Size {name}", option): place for option, place in written.items()}
        found.append(
            replace(size, name=name, instance_type=kind, instance_types=None, group=size.name)
        )
    return found


def _read_keys(draft: Draft, section: str) -> None:
    """Read a section whose keys are the driver's own; keeps keys exactly as written."""
    keys: dict[str, str] = Credentials() if section == CREDENTIALS else {}
    draft.keys[section] = keys
    first: dict[str, IniOption] = {}
    for entry in draft.ini.sections.get(section, []):
        key, from_file = entry.name, False
        if section == CREDENTIALS and ":" in key:
            _no_space(draft, Place(section, key.partition(":")[0], MASK, entry.line))
            continue
        if section == CREDENTIALS and key.endswith(FILE_SUFFIX) and key not in LITERAL_FILE_KEYS:
            key, from_file = key[: -len(FILE_SUFFIX)], True
        secret = not from_file and (section == CREDENTIALS or is_secret(key))
        if key in first:
            _repeated(draft, section, first[key], entry, secret)
            continue
        first[key] = entry
        place = Place(section, entry.name, shown(entry.value, secret=secret), entry.line)
        draft.places[section, key] = place
        if any(_OPTION.match(line) for line in entry.value.split("\n")[1:]):
            draft.report.wrong(place, "includes the line below; an option must not be indented")
            continue
        value = _content(draft, place, entry.value) if from_file else entry.value
        if value is None or (section == CREDENTIALS and _lost(draft, place, entry)):
            continue
        keys[key] = value
        hidden = key not in NO_SECRETS if section == CREDENTIALS else is_secret(key)
        file = f"{key}{FILE_SUFFIX}" if section == CREDENTIALS else ""
        _doubt(draft, place, entry, secret=hidden and not from_file, file=file)
        _doubt_text(draft, place, value, secret=hidden)
