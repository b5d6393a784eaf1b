"""The program of a rank: learns where modules are, and hands over to ``_rank``.

It is run as a file, not as a module, since this interpreter may not find ``lycaon`` by itself. Its
standard input is the socket to the cluster, which moves out of the way of the user's code.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def main() -> None:
    end = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    line = bytearray()
    while not line.endswith(b"\n"):
        # One byte at a time: what follows the line is for another reader.
        byte = end.recv(1)
        if not byte:
            return
        line += byte
    setup = json.loads(line)
    sys.path[:] = setup["path"]
    lifeline = int(sys.argv[1])
    sys.argv = [""]

    from lycaon import _lycaon
    from lycaon.cluster._rank import Rank

    os.set_inheritable(lifeline, False)
    _lycaon._end_with(lifeline)

    Rank(end, setup).serve()


if __name__ == "__main__":
    main()
