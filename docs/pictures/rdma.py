#!/usr/bin/env python3
"""Draws the pictures of docs/rdma.md.

`rdma.py` writes them beside itself, `rdma.py --check` says which of them are not what it would write.
"""

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).resolve().parent

BOX_WIDTH, BOX_HEIGHT = 132, 56
# Colours that differ in brightness too, on a ground of their own: pages may be dark.
KINDS = {
    "rdma": ("#1f5fbf", "", "RDMA cable"),
    "tcp": ("#b35900", "7 5", "TCP, over any network"),
    "shm": ("#2e7d32", "2 4", "shared memory, one host"),
}


@dataclass
class Host:
    """Where a rank runs. `x` and `y` are its middle."""

    x: int
    y: int
    name: str
    what: str


@dataclass
class Link:
    """What joins two hosts. The labels stand at the ends; `bend` moves the middle aside."""

    first: int
    second: int
    kind: str = "rdma"
    labels: tuple = ("", "")
    bend: int = 0


@dataclass
class Frame:
    """A box around hosts."""

    hosts: list
    name: str


@dataclass
class Picture:
    title: str
    width: int
    height: int
    hosts: list
    links: list
    frames: list = field(default_factory=list)

    def draw(self):
        used = [kind for kind in KINDS if any(link.kind == kind for link in self.links)]
        height = self.height + 34
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {height}" '
            f'width="{self.width}" height="{height}" role="img" '
            'font-family="Helvetica, Arial, sans-serif">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{self.width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]
        out += [self._frame(frame) for frame in self.frames]
        out += [self._line(link) for link in self.links]
        out += [self._box(host) for host in self.hosts]
        # Labels last: nothing may cover them.
        for link in self.links:
            out += self._labels(link)
        x = 20
        for kind in used:
            colour, dashes, what = KINDS[kind]
            y = height - 18
            out.append(
                f'<path d="M{x} {y}H{x + 34}" stroke="{colour}" stroke-width="3"{dashed(dashes)}/>'
            )
            out.append(text(x + 42, y + 4, what, "start", 12, "#333333"))
            x += 42 + 7 * len(what) + 24
        out.append("</svg>")
        return "\n".join(out) + "\n"

    def _ends(self, link):
        """Where a line leaves the boxes: its two ends and the point that bends it."""
        a, b = self.hosts[link.first], self.hosts[link.second]
        dx, dy = b.x - a.x, b.y - a.y
        length = math.hypot(dx, dy)
        aside = (-dy / length * link.bend, dx / length * link.bend)
        middle = ((a.x + b.x) / 2 + aside[0], (a.y + b.y) / 2 + aside[1])
        # Cables of one pair leave side by side.
        shift = (aside[0] * 0.45, aside[1] * 0.45)
        start = edge(a, middle, shift)
        end = edge(b, middle, shift)
        return start, middle, end

    def _line(self, link):
        (x1, y1), (mx, my), (x2, y2) = self._ends(link)
        colour, dashes, _ = KINDS[link.kind]
        # The curve passes through the point that bends it.
        cx, cy = 2 * mx - (x1 + x2) / 2, 2 * my - (y1 + y2) / 2
        return (
            f'<path d="M{x1:.0f} {y1:.0f}Q{cx:.0f} {cy:.0f} {x2:.0f} {y2:.0f}" fill="none" '
            f'stroke="{colour}" stroke-width="3"{dashed(dashes)}/>'
        )

    def _labels(self, link):
        start, middle, end = self._ends(link)
        colour = KINDS[link.kind][0]
        out = []
        for label, near, far in ((link.labels[0], start, end), (link.labels[1], end, start)):
            if not label:
                continue
            length = math.hypot(middle[0] - near[0], middle[1] - near[1])
            reach = (6 + 3.4 * len(label)) * abs(middle[0] - near[0]) / length
            reach += 16 * abs(middle[1] - near[1]) / length
            x = near[0] + (middle[0] - near[0]) / length * reach
            y = near[1] + (middle[1] - near[1]) / length * reach
            width = 6.6 * len(label) + 6
            out.append(
                f'<rect x="{x - width / 2:.0f}" y="{y - 9:.0f}" width="{width:.0f}" height="17" '
                'rx="3" fill="#ffffff"/>'
            )
            out.append(text(round(x), round(y) + 4, label, "middle", 11, colour))
        return out

    @staticmethod
    def _box(host):
        x, y = host.x - BOX_WIDTH // 2, host.y - BOX_HEIGHT // 2
        return "\n".join(
            [
                f'<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8" '
                'fill="#f2f4f8" stroke="#444c5c" stroke-width="1.5"/>',
                text(host.x, host.y - 4, host.name, "middle", 15, "#111111", bold=True),
                text(host.x, host.y + 15, host.what, "middle", 12, "#444c5c"),
            ]
        )

    def _frame(self, frame):
        hosts = [self.hosts[index] for index in frame.hosts]
        left = min(host.x for host in hosts) - BOX_WIDTH // 2 - 14
        top = min(host.y for host in hosts) - BOX_HEIGHT // 2 - 30
        right = max(host.x for host in hosts) + BOX_WIDTH // 2 + 14
        bottom = max(host.y for host in hosts) + BOX_HEIGHT // 2 + 14
        return "\n".join(
            [
                f'<rect x="{left}" y="{top}" width="{right - left}" height="{bottom - top}" rx="10" '
                'fill="none" stroke="#8a93a6" stroke-width="1.5" stroke-dasharray="4 3"/>',
                text(left + 12, top + 19, frame.name, "start", 12, "#444c5c"),
            ]
        )


def edge(host, towards, shift):
    """Where the line from the middle of a box to a point leaves the box."""
    x, y = host.x + shift[0], host.y + shift[1]
    dx, dy = towards[0] - x, towards[1] - y
    scales = []
    if dx:
        side = host.x + math.copysign(BOX_WIDTH / 2, dx)
        scales.append((side - x) / dx)
    if dy:
        side = host.y + math.copysign(BOX_HEIGHT / 2, dy)
        scales.append((side - y) / dy)
    scale = min(scales)
    return x + dx * scale, y + dy * scale


def dashed(dashes):
    return f' stroke-dasharray="{dashes}"' if dashes else ""


def text(x, y, words, anchor, size, colour, bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"{weight}>'
        f"{escape(words)}</text>"
    )


def macs(*places):
    return [Host(x, y, f"rank {rank}", "Mac") for rank, (x, y) in enumerate(places)]


def mesh():
    hosts = macs((110, 60), (510, 60), (110, 300), (510, 300))
    links = [
        Link(0, 1, labels=("rdma_en2", "rdma_en2")),
        Link(0, 2, labels=("rdma_en3", "rdma_en2")),
        Link(0, 3, labels=("rdma_en4", "rdma_en2")),
        Link(1, 2, labels=("rdma_en3", "rdma_en3")),
        Link(1, 3, labels=("rdma_en4", "rdma_en3")),
        Link(2, 3, labels=("rdma_en4", "rdma_en4")),
    ]
    return Picture("Four hosts, a cable for every pair", 620, 360, hosts, links)


def ring():
    hosts = macs((110, 60), (510, 60), (510, 260), (110, 260))
    links = [
        Link(0, 1, labels=("rdma_en2", "rdma_en3")),
        Link(1, 2, labels=("rdma_en2", "rdma_en3")),
        Link(2, 3, labels=("rdma_en2", "rdma_en3")),
        Link(3, 0, labels=("rdma_en2", "rdma_en3")),
        Link(0, 2, kind="tcp"),
        Link(1, 3, kind="tcp"),
    ]
    return Picture("Four hosts in a ring", 620, 320, hosts, links)


def line():
    hosts = macs((100, 60), (420, 60), (740, 60))
    links = [
        Link(0, 1, labels=("rdma_en2", "rdma_en2")),
        Link(1, 2, labels=("rdma_en3", "rdma_en2")),
        Link(0, 2, kind="tcp", bend=80),
    ]
    return Picture("Three hosts in a line", 840, 165, hosts, links)


def rails():
    hosts = macs((100, 90), (520, 90))
    hosts[0].what, hosts[1].what = "10.0.1.1, 10.0.2.1", "10.0.1.2, 10.0.2.2"
    links = [
        Link(0, 1, labels=("rdma_en2", "rdma_en3"), bend=-44),
        Link(0, 1, labels=("rdma_en3", "rdma_en2"), bend=44),
    ]
    return Picture("Two cables between two hosts, crossed", 620, 175, hosts, links)


def mixed():
    hosts = [
        Host(110, 80, "rank 0", "Mac"),
        Host(110, 270, "rank 1", "Mac"),
        Host(540, 80, "rank 2", "process 1"),
        Host(540, 270, "rank 3", "process 2"),
    ]
    links = [
        Link(0, 1, labels=("rdma_en2", "rdma_en2")),
        Link(2, 3, kind="shm"),
        Link(0, 2, labels=("rdma_en3", "usb4_rdma0")),
        Link(1, 2, kind="tcp"),
        Link(0, 3, kind="tcp"),
        Link(1, 3, kind="tcp"),
    ]
    frames = [Frame([2, 3], "a Linux host")]
    return Picture("Two Macs and a Linux host", 650, 330, hosts, links, frames)


PICTURES = {"mesh": mesh, "ring": ring, "line": line, "rails": rails, "mixed": mixed}


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(f"usage: {sys.argv[0]} [--check]")
    stale = []
    for name, picture in PICTURES.items():
        file = HERE / f"rdma-{name}.svg"
        drawn = picture().draw()
        if not check:
            file.write_text(drawn)
        elif not file.exists() or file.read_text() != drawn:
            stale.append(file.name)
    if stale:
        sys.exit(f"not what {Path(__file__).name} draws: {', '.join(stale)}; run it without --check")


if __name__ == "__main__":
    main()
