"""Draw doc/incident/timeline.svg: python doc/timeline.py

Who holds the slots comes from the daemon's log, what was done to the cluster from truth.txt.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml

INCIDENT = Path(__file__).parent / "incident"
LEFT, TOP, WIDE, HIGH, ROW = 70, 122, 800, 200, 22
FAULTS = (
    ("freezes", "is back", "{} is cut off"),
    ("answers 503", "works again", "the API is down"),
    ("nodes only", "all nodes again", "a short list"),
)
"""How the truth tells of a fault, of its end, and how it is called here."""
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1a202c } .small { font-size: 11px; fill: #4a5568 }
.listed { fill: #7fb38a } .unlisted { fill: #d9796f } .free { fill: #e2e8f0 }
.fault { fill: #f6c453 } .breaker { fill: #9f7aea } .kill { stroke: #c53030; stroke-width: 2 }
.clean { stroke: #2f855a; stroke-width: 2 } .axis { stroke: #4a5568; stroke-width: 1 }
.page { fill: #fff }
@media (prefers-color-scheme: dark) {
.page { fill: #131416 } text { fill: #cfd0d0 } .small { fill: #9ca0a5 } .free { fill: #2d3748 }
.axis { stroke: #9ca0a5 }
}
"""


def seconds(clock: str) -> float:
    hours, minutes, rest = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


@dataclass
class Line:
    at: float
    fields: dict[str, str]


def log() -> list[Line]:
    lines = []
    for text in (INCIDENT / "incident.log").read_text(encoding="utf-8").splitlines():
        fields = dict(word.split("=", 1) for word in shlex.split(text))
        lines.append(Line(seconds(fields["ts"][11:23]), fields))
    return lines


class Drawing:
    """The picture, from the first moment that all nodes are up until the end."""

    def __init__(self) -> None:
        self.log = log()
        truth = (INCIDENT / "truth.txt").read_text(encoding="utf-8")
        self.truth = [(seconds(line[:8]), line[18:]) for line in truth.splitlines()]
        self.begin, self.end = self.truth[0][0] - 5, self.log[-1].at
        size = {"viewBox": f"0 0 900 {TOP + HIGH + 88}", "xmlns": "http://www.w3.org/2000/svg"}
        self.root = Xml.Element("svg", size)
        self.add("title").text = "Who held the slots, and what was done to the cluster"
        self.add("style").text = STYLE
        self.add("rect", width=900, height=TOP + HIGH + 88, class_="page")

    def add(self, tag: str, **attributes: object) -> Xml.Element:
        named = {key.rstrip("_"): str(value) for key, value in attributes.items()}
        return Xml.SubElement(self.root, tag, named)

    def text(self, x: float, y: float, text: str, **more: str) -> None:
        self.add("text", x=f"{x:.1f}", y=f"{y:.1f}", **more).text = text

    def x(self, at: float) -> float:
        return LEFT + WIDE * (min(max(at, self.begin), self.end) - self.begin) / (
            self.end - self.begin
        )

    def bar(self, kind: str, row: int, begin: float, end: float, label: str) -> None:
        left, right, y = self.x(begin), self.x(end), 14 + row * ROW
        self.add("rect", x=f"{left:.1f}", y=y, width=f"{right - left:.1f}", height=14, class_=kind)
        self.text(right + 5, y + 11, label)

    def faults(self) -> None:
        for row, (began, over, label) in enumerate(FAULTS):
            first = next((at, what) for at, what in self.truth if began in what)
            last = next(at for at, what in self.truth if over in what)
            self.bar("fault", row, first[0], last, label.format(first[1].split(" ")[0]))
        at = {line.fields["event"]: line.at for line in self.log}
        self.bar("breaker", 3, at["breaker.opened"], at["breaker.closed"], "the breaker is open")

    def slots(self) -> None:
        """Steps of who holds the slots, one over the other."""
        cycles = [
            line
            for line in self.log
            if line.fields["event"] == "cycle.done" and "nodes" in line.fields
        ]
        total = int(cycles[-1].fields["slots"])
        for one, following in zip(cycles, [*cycles[1:], None], strict=True):
            begin, end = one.at, following.at if following else self.end
            if end <= self.begin:
                continue
            free, listed = int(one.fields["free"]), int(one.fields["nodes"])
            listed = min(listed, total - free)
            y = float(TOP + HIGH)
            for kind, count in (
                ("listed", listed),
                ("unlisted", total - free - listed),
                ("free", free),
            ):
                tall = HIGH * count / total
                y -= tall
                left, right = self.x(begin), self.x(end)
                self.add(
                    "rect",
                    x=f"{left:.2f}",
                    y=f"{y:.2f}",
                    width=f"{right - left + 0.3:.2f}",
                    height=f"{tall:.2f}",
                    class_=kind,
                )
        for count in (0, 10, total):
            self.text(
                LEFT - 8, TOP + HIGH - HIGH * count / total + 4, str(count), text_anchor="end"
            )
        self.text(LEFT - 8, TOP - 8, "slots", text_anchor="end", class_="small")

    def marks(self) -> None:
        last = 0.0
        for at, what in self.truth:
            if "killed" in what:
                x = self.x(at)
                self.add("line", x1=x, x2=x, y1=TOP - 8, y2=TOP + HIGH, class_="kill")
                host = what.split(" ")[0].removeprefix("compute")
                last = max(x, last + 16)
                self.text(last, TOP - 11, host, text_anchor="middle")
        last = 0.0
        for line in self.log:
            if line.fields["event"] == "record.cleaned":
                x = self.x(line.at)
                self.add("line", x1=x, x2=x, y1=TOP, y2=TOP + HIGH + 8, class_="clean")
                last = max(x, last + 16)
                host = line.fields["host"].removeprefix("compute")
                self.text(last, TOP + HIGH + 20, host, text_anchor="middle")

    def axis(self) -> None:
        y = TOP + HIGH
        self.add("line", x1=LEFT, x2=LEFT + WIDE, y1=y, y2=y, class_="axis")
        zero = self.truth[0][0] - 5
        for second in range(0, int(self.end - zero) + 1, 30):
            x = self.x(zero + second)
            self.text(x, y + 40, f"+{second} s", text_anchor="middle", class_="small")
        legend = (
            ("listed", "its node is listed"),
            ("unlisted", "its node is not"),
            ("free", "free"),
        )
        x = float(LEFT)
        for kind, label in legend:
            self.add("rect", x=x, y=y + 58, width=12, height=12, class_=kind)
            self.text(x + 18, y + 68, label)
            x += 150
        for kind, label in (("kill", "killed: compute..."), ("clean", "its slot is freed")):
            self.add("line", x1=x + 5, x2=x + 5, y1=y + 56, y2=y + 72, class_=kind)
            self.text(x + 18, y + 68, label)
            x += 150

    def draw(self) -> str:
        self.faults()
        self.slots()
        self.marks()
        self.axis()
        return Xml.tostring(self.root, encoding="unicode").replace("text_anchor", "text-anchor")


if __name__ == "__main__":
    (INCIDENT / "timeline.svg").write_text(Drawing().draw() + "\n", encoding="utf-8")
