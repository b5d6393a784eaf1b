#!/usr/bin/env python3
"""Runs a command in a virtual machine with RDMA devices.

The machine has a stock kernel with soft-RoCE (`rdma_rxe`), the unchanged libibverbs, and one pair of
devices per cable: `rxe_c0a` and `rxe_c0b` at the ends of cable 0, and so on. Where KVM does not work
every instruction is emulated, so time means nothing in there. The output of the command is copied as
it comes; the exit code is that of the command, or 125 with a reason if the machine could not be made
or went down.
"""

import argparse
import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from image import Archive, Failure, Image, run

REPOSITORY = Path(__file__).resolve().parents[2]
PREFIX = "lycaon-vm: "
QEMU = "qemu-system-x86_64"
BROKEN = 125

# Wide registers are emulated word by word: programs had better not find them.
NARROW = "max,-avx,-avx2,-avx512f,-erms,-fsrm"
ACCEL = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    "tcg": ["-accel", "tcg,thread=multi", "-cpu", NARROW],
}
BARE = ["-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none"]
BARE += ["-net", "none", "-no-reboot"]


# The command has begun when this has been printed.
READY = f"{PREFIX}ready "
# Seconds until then. A machine in a machine may run, but far too slowly.
START = {"kvm": 20, "tcg": 240}


class NotReady(Failure):
    """The machine has not come as far as to run its command."""


def main():
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        code = with_machine(options)
    except Failure as failure:
        print(f"{PREFIX}{failure}", file=sys.stderr)
        code = BROKEN
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    sys.exit(code)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--cache", type=Path, default=REPOSITORY / "target/rdma-vm")
    parser.add_argument("--cables", type=int, default=1, help="pairs of devices (default 1)")
    parser.add_argument("--mtu", type=int, default=4200, help="of the interfaces (default 4200)")
    parser.add_argument("--memory", type=int, default=2048, help="of the machine, in MiB")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--deadline", type=float, default=600, help="for the whole run, in seconds")
    parser.add_argument("--silence", type=float, default=120, help="longest pause between two lines")
    parser.add_argument("--program", type=Path, action="append", default=[], help="copied to /bin")
    parser.add_argument("--accel", choices=["auto", "kvm", "tcg"], default="auto")
    parser.add_argument("command", nargs="*", help="run by /bin/sh; without it, only the image is made")
    return parser.parse_args()


def with_machine(options):
    need_emulator()
    image = Image(options.cache)
    started = time.monotonic()
    options.cache.mkdir(parents=True, exist_ok=True)
    with (options.cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        image.prepare()
    if not options.command:
        print(f"{PREFIX}image ready in {options.cache} after {time.monotonic() - started:.0f} s")
        return 0
    extra = pack(image, options)
    # Runs of two people, or of one in two windows, do not share files.
    folder = options.cache / f"run-{os.getpid()}"
    folder.mkdir()
    try:
        initrd = folder / "initrd"
        with initrd.open("wb") as file:
            for part in (image.base.read_bytes(), extra):
                file.write(part + b"\0" * (-len(part) % 512))
        accel = options.accel
        if accel == "auto":
            accel = "kvm" if kvm_works(folder) else "tcg"
        try:
            return boot(accel, image.kernel, initrd, folder / "console", options)
        except NotReady as failure:
            if accel != "kvm" or options.accel != "auto":
                raise
            print(f"{PREFIX}{failure}", file=sys.stderr)
            return boot("tcg", image.kernel, initrd, folder / "console", options)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def need_emulator():
    if os.uname().machine != "x86_64":
        raise Failure(f"the machine is made of x86-64 packages; this host is {os.uname().machine}")
    for tool in ("apt-get", "apt-cache", "dpkg", "ldd"):
        if not shutil.which(tool):
            raise Failure(f"{tool} is missing: the machine is made of the packages of a Debian host")
    if shutil.which(QEMU):
        return
    install = ["apt-get", "-q", "install", "-y", "--no-install-recommends", "qemu-system-x86"]
    if os.geteuid() != 0:
        raise Failure(f"{QEMU} is missing; as root: {' '.join(install)}")
    run("apt-get", "-q", "update")
    run(*install, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def pack(image, options):
    archive = Archive()
    for program in options.program:
        if not program.is_file():
            raise Failure(f"no program {program}: it has to be built first")
        # Line tables are most of a program and nobody looks at them in there.
        stripped = options.cache / f"{program.name}.{os.getpid()}"
        try:
            run("strip", "-o", str(stripped), str(program))
            image.add_program(archive, stripped, f"/bin/{program.name}")
        finally:
            stripped.unlink(missing_ok=True)
    archive.text("run/settings", f"CABLES={options.cables}\nMTU={options.mtu}\n")
    archive.text("run/command", " ".join(options.command) + "\n")
    return archive.finish()


def kvm_works(folder):
    """Whether KVM runs a program. That /dev/kvm is there says little: in a virtual machine it may
    refuse registers, or run nothing at all."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    # Where a processor begins, 16 bytes below the end of the firmware: out 0xf4, al
    firmware = folder / "firmware"
    firmware.write_bytes(bytes(0xFFF0) + b"\xb0\x10\xe6\xf4\xf4" + bytes(11))
    command = [QEMU, *ACCEL["kvm"], *BARE, "-m", "16", "-bios", str(firmware)]
    command += ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]
    try:
        probe = subprocess.run(command, capture_output=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return False
    return probe.returncode == 0x10 << 1 | 1


def boot(accel, kernel, initrd, console, options):
    print(f"{PREFIX}starting, {accel}", flush=True)
    command = [QEMU, *ACCEL[accel], *BARE]
    command += ["-m", str(options.memory), "-smp", str(options.cpus)]
    command += ["-serial", f"file:{console}", "-serial", "stdio"]
    command += ["-kernel", str(kernel), "-initrd", str(initrd), "-append"]
    # A panic or an oops ends the machine at once instead of leaving it to its deadline.
    # Nothing watches the clock of the processor, which is therefore not trusted unless told to be;
    # every other clock is a device, a thousand times as slow to read.
    command += [
        "console=ttyS0 panic=-1 oops=panic quiet mitigations=off nokaslr tsc=reliable clocksource=tsc"
    ]
    # Should this process be killed outright, the machine still ends.
    command = ["timeout", "--kill-after=5", str(options.deadline + 15), *command]
    machine = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        begun, code, reason = follow(machine, START[accel], options)
    finally:
        machine.terminate()
        try:
            machine.wait(10)
        except subprocess.TimeoutExpired:
            machine.kill()
            machine.wait()
    if code is None:
        said = console.read_text(errors="replace").splitlines() if console.exists() else []
        tail = "\n".join(said[-40:]) or "(nothing)"
        kind = Failure if begun else NotReady
        raise kind(f"{reason} ({accel}). The kernel's last words:\n{tail}")
    return code


def follow(machine, start, options):
    """Copies the machine's lines until it ends. Returns whether the command has begun, and its exit
    code, or None and the reason why there is none."""
    began = time.monotonic()
    end = began + options.deadline
    begun = False
    rest = b""
    while True:
        now = time.monotonic()
        patience = min(end - now, options.silence if begun else began + start - now)
        ready, _, _ = select.select([machine.stdout], [], [], max(patience, 0))
        if not ready:
            if not begun:
                return False, None, f"the machine was not ready within {start} s"
            if time.monotonic() >= end:
                return True, None, f"the machine did not finish within {options.deadline:.0f} s"
            return True, None, f"the machine said nothing for {options.silence:.0f} s"
        data = os.read(machine.stdout.fileno(), 65536)
        if not data:
            code = machine.wait()
            return begun, None, f"the machine went down (code {code}) before its command ended"
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            line = line.decode(errors="replace").rstrip("\r")
            if line.startswith(f"{PREFIX}exit "):
                return begun, int(line.rsplit(" ", 1)[1]), None
            begun = begun or line.startswith(READY)
            print(line, flush=True)


if __name__ == "__main__":
    main()
