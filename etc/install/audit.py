"""audit.py DIRECTORY: what comes with the wheel in DIRECTORY, its licences and vulnerabilities.

Installs the wheel with every extra, each package as it is pinned, into an empty environment; writes
that environment's SBOM (CycloneDX) and a table of the licences into DIRECTORY; then asks public
advisories. Exit codes: 0 if nothing is wrong, 1 for a licence that is not in LICENCES or a known
vulnerability, 3 where the advisories could not be asked about every package: then nothing is known.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

INSTALL = Path(__file__).parent
WRONG, UNKNOWN = 1, 3
OSV = "https://api.osv.dev/v1/query"
LICENCES = {
    "Apache-2.0",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "LGPL-2.0-or-later",
    "LGPL-2.1-only",
    "LGPL-3.0-only",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
}
"""Those of the packages that an installation may bring. None of them asks anything of our own code;
what is under the LGPL (PostgreSQL's, libvirt's and Arvados's clients) is imported, and comes only
with its extra."""
SPELT = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License (2.0)": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD License": "BSD",
    "Dual License": "Apache-2.0 OR BSD-3-Clause",
    "LGPL-v2.0-or-later": "LGPL-2.0-or-later",
    "MIT License": "MIT",
}
"""How some packages write it."""
OPERATOR = re.compile(r"\s+(?:AND|OR|WITH)\s+|[()]")


def licence(package: Distribution) -> str:
    """What a package's metadata says: its expression, else its field, else its classifiers."""
    told = package.metadata
    (first, *_) = told.get_all("License-Expression") or told.get_all("License") or [""]
    text = str(first)
    if not text or "\n" in text or len(text) > 60:
        kinds = told.get_all("Classifier") or []
        found = [one.split(" :: ")[-1] for one in kinds if one.startswith("License :: ")]
        text = " OR ".join(SPELT.get(one, one) for one in found) or "not told"
    return SPELT.get(text, text)


def strange(text: str) -> set[str]:
    """The licences in an expression that are not in LICENCES."""
    parts = {SPELT.get(part, part) for part in map(str.strip, OPERATOR.split(text)) if part}
    return parts - LICENCES


def vulnerable(report: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The vulnerabilities in a report of pip-audit, and the packages that it has no word on."""
    known, skipped = [], []
    for package in report["dependencies"]:
        if "skip_reason" in package:
            skipped.append(package["name"])
        for one in package.get("vulns", ()):
            mended = " or ".join(one["fix_versions"]) or "no version"
            ids = ", ".join(sorted([one["id"], *one["aliases"]]))
            known.append(f"{package['name']} {package['version']}: {ids}; mended in {mended}")
    return known, skipped


def asked(pins: Path) -> int:
    """Ask PyPI's advisories, else OSV's, about each pinned package, and say what is known."""
    tool = (sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off")
    file = ("--disable-pip", "--requirement", str(pins))
    services = ("pypi",), ("osv", "--osv-url", os.environ.get("NODEMANAGER_OSV", OSV))
    for service, *more in services:
        done = subprocess.run(
            [*tool, *file, "--vulnerability-service", service, *more],
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            known, skipped = vulnerable(json.loads(done.stdout))
        except ValueError:
            why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
            print(f"The advisories of {service} could not be asked: {why}")
            continue
        if known:
            print(f"Known vulnerabilities ({service}):", *known, sep="\n  ")
            return WRONG
        if not skipped:
            print(f"No vulnerability of these packages is known to {service}")
            return 0
        print(f"{service} has no word on {len(skipped)} packages, {skipped[0]} among them")
    print("UNKNOWN whether there are any vulnerabilities: run this where advisories can be reached")
    return UNKNOWN


def command(*words: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in words], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def table(packages: Iterable[Distribution]) -> dict[str, str]:
    """The licence of each package, by its name and version."""
    found = {f"{one.metadata['Name']} {one.version}": licence(one) for one in packages}
    return dict(sorted(found.items(), key=lambda row: row[0].lower()))


def main() -> int:
    into = Path(sys.argv[1])
    (wheel,) = into.glob("*.whl")
    extras = [
        one for one in command(INSTALL / "extras").split() if one not in {"test", "doc", "audit"}
    ]
    with tempfile.TemporaryDirectory() as work:
        pins, place = Path(work, "pins.txt"), Path(work, "venv")
        pins.write_text(command(sys.executable, INSTALL / "pins.py", *extras), encoding="utf-8")
        command(sys.executable, "-m", "venv", "--without-pip", place)
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--python",
            place / "bin" / "python",
            "install",
            "--quiet",
        )
        command(INSTALL / "quietly", "What it brings", *pip, "--require-hashes", "-r", pins)
        command(INSTALL / "quietly", "The wheel", *pip, "--no-deps", "--no-index", wheel)
        sbom = into / f"{wheel.name.partition('-py3')[0]}.cdx.json"
        describe = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
        command(*describe, "--output-file", sbom, place)
        (site,) = place.glob("lib/python3*/site-packages")
        licences = table(distributions(path=[str(site)]))
        print(f"{sbom}: {len(licences)} packages, with the extras {', '.join(extras)}")
        code = asked(pins)
    text = "".join(f"{name:40} {what}\n" for name, what in licences.items())
    (into / "licences.txt").write_text(text, encoding="utf-8")
    wrong = {name: what for name, what in licences.items() if strange(what)}
    for name, what in wrong.items():
        print(f"{name}: the licence {what} is not in LICENCES ({Path(__file__).name})")
    print(
        f"{into}/licences.txt: {len(set(licences.values()))} licences, {len(wrong)} not in LICENCES"
    )
    return WRONG if wrong else code


if __name__ == "__main__":
    sys.exit(main())
