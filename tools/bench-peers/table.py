"""Turns the raw times of `run` into a Markdown table.

table.py RAW                  prints the table
table.py --insert BLOCK DOC   puts a block of text between the markers of a document
"""

import collections
import statistics
import sys

PEERS = {"openmpi": "Open MPI", "mpich": "MPICH"}
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"


def read(path):
    """Times by case, size and program, in the order of the rounds."""
    times = collections.defaultdict(dict)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            number, case, program, size, time = line.rstrip("\n").split("\t")
            times[case, int(size), program][int(number)] = float(time)
    return times


def show_size(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def show_time(times):
    if not times:
        return "–"
    median = statistics.median(times.values())
    return f"{median:,.0f}" if median >= 100 else f"{median:.1f}" if median >= 10 else f"{median:.2f}"


def show_ratio(ours, theirs):
    """The median of the ratios of each round, and their range."""
    ratios = [ours[number] / theirs[number] for number in ours if number in theirs]
    if not ratios:
        return "–"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"


def table(times):
    yield "| links, ranks | size | lycaon µs | Open MPI µs | MPICH µs | lycaon / the faster MPI (range) |"
    yield "|---|---:|---:|---:|---:|---:|"
    for case, size in dict.fromkeys((case, size) for case, size, _ in times):
        ours = times.get((case, size, "lycaon"), {})
        peers = {peer: times.get((case, size, peer), {}) for peer in PEERS}
        known = {peer: found for peer, found in peers.items() if found}
        if not ours or not known:
            sys.exit(f"table.py: no times for {case} ranks, {show_size(size)}: a program failed")
        faster = min(known.values(), key=lambda found: statistics.median(found.values()))
        cells = [case, show_size(size), show_time(ours)]
        cells += [show_time(peers[peer]) for peer in PEERS]
        yield f"| {' | '.join(cells)} | {show_ratio(ours, faster)} |"
    size = 64 << 20
    copy, ours = times["shm 2", size, "memcpy"], times["shm 2", size, "lycaon"]
    yield ""
    yield (
        f"Two `memcpy` of 64 MiB at the same time, one on each core, take {show_time(copy)} µs: all_reduce over "
        f"shared memory moves its data at {show_ratio(copy, ours)} of that speed."
    )


def insert(block, document):
    with open(block, encoding="utf-8") as file:
        new = file.read()
    with open(document, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    with open(document, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN}\n{new}{END}{after}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--insert"]:
        insert(*sys.argv[2:4])
    else:
        print("\n".join(table(read(*sys.argv[1:2]))))
