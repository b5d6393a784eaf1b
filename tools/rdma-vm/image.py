"""What the virtual machine boots: a kernel and an initial file system, made from packages.

Nothing is installed on the host. The packages are downloaded by `apt-get download`, unpacked by
`dpkg -x`, and the result is kept: later runs need neither network nor unpacking.
"""

import hashlib
import lzma
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Loaded in this order, each after what it depends on. rdma_rxe asks for "crc32" by a name that no
# dependency records, and there is no modprobe in the machine that could answer.
MODULES = ["crc32_generic", "veth", "ib_uverbs", "rdma_rxe"]

PROGRAMS = [
    "bin/ip",
    "usr/bin/rdma",
    "usr/bin/ibv_devinfo",
    "usr/bin/ibv_rc_pingpong",
    "usr/bin/ibv_uc_pingpong",
]

XZ_MAGIC = b"\xfd7zXZ\x00"


class Failure(Exception):
    """The machine cannot be made, or did not do what it was made for."""


def run(*command, **options):
    """Runs a program to its end and returns what it printed; its own words are in the failure."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    except OSError as error:
        raise Failure(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise Failure(f"`{' '.join(map(str, command))}` failed with code {done.returncode}:\n{said}")
    return done.stdout


class Image:
    """The kernel and the base file system, both in `cache`."""

    def __init__(self, cache):
        self.cache = Path(cache)
        self.kernel = self.cache / "vmlinux"
        self.base = self.cache / "base.cpio"
        self.root = self.cache / "root"

    def prepare(self):
        """Makes what is not there yet, or was made after another recipe."""
        self.cache.mkdir(parents=True, exist_ok=True)

        def unpack():
            self._unpack(self._download())
            self._extract_kernel()

        self._once("unpacked", ["packages.txt"], unpack)
        self._once("packed", ["packages.txt", "image.py", "init.sh"], self._pack_base)

    def _once(self, step, recipe, make):
        made_of = hashlib.sha256()
        for name in recipe:
            made_of.update((HERE / name).read_bytes())
        stamp = self.cache / step
        if stamp.exists() and stamp.read_text() == made_of.hexdigest():
            return
        stamp.unlink(missing_ok=True)
        make()
        stamp.write_text(made_of.hexdigest())

    def library_path(self):
        """Where the unpacked packages keep their libraries."""
        return [
            self.root / "usr/lib/x86_64-linux-gnu",
            self.root / "lib/x86_64-linux-gnu",
        ]

    def libraries(self, program):
        """The shared libraries of a program as (file on the host, path in the machine)."""
        path = ":".join(str(folder) for folder in self.library_path())
        listed = run("ldd", str(program), env={**os.environ, "LD_LIBRARY_PATH": path, "LC_ALL": "C"})
        found = []
        for line in listed.splitlines():
            line = line.strip()
            if "not found" in line:
                library = line.split()[0]
                raise Failure(
                    f"{program} needs {library}, which is neither in the packages of "
                    f"{HERE / 'packages.txt'} nor on this host: add its package to the list"
                )
            named = re.match(r"(?:(\S+) => )?(/\S+) \(0x", line)
            if not named:
                continue
            file = Path(named.group(2))
            # The loader is asked for by its full path, everything else is searched for by name.
            at = str(file) if named.group(1) is None else f"/lib/x86_64-linux-gnu/{named.group(1)}"
            found.append((file, at))
        return found

    def _download(self):
        names = [kernel_package()]
        for line in (HERE / "packages.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                names.append(line)
        store = self.cache / "packages"
        store.mkdir(exist_ok=True)
        for old in store.glob("*.deb"):
            old.unlink()
        # Downloading as root into a folder of ours: apt's own user may not write there.
        fetch = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *names]
        try:
            run(*fetch, cwd=store)
        except Failure:
            # Lists that are old or were never fetched name files that are not there.
            run("apt-get", "-q", "update")
            run(*fetch, cwd=store)
        return sorted(store.glob("*.deb"))

    def _unpack(self, packages):
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        for package in packages:
            run("dpkg", "-x", str(package), str(self.root))
            package.unlink()

    def _extract_kernel(self):
        """Takes the kernel proper out of its self-extracting form: a start by PVH skips the
        decompression, which is slow where every instruction is translated."""
        image = only(self.root.glob("boot/vmlinuz-*"), "kernel image")
        packed = image.read_bytes()
        at = packed.find(XZ_MAGIC)
        if at < 0:
            raise Failure(f"{image.name} holds no XZ stream: this kernel is packed in another way")
        try:
            kernel = lzma.LZMADecompressor().decompress(packed[at:])
        except lzma.LZMAError as error:
            raise Failure(f"cannot unpack {image.name}: {error}") from error
        if kernel[:4] != b"\x7fELF":
            raise Failure(f"what is packed in {image.name} is not an ELF file")
        self.kernel.write_bytes(kernel)

    def _pack_base(self):
        archive = Archive()
        for folder in ["dev", "etc", "proc", "run", "sys", "tmp"]:
            archive.folder(folder)
        archive.device("dev/console", 5, 1)
        busybox = self.root / "bin/busybox"
        archive.file("bin/busybox", busybox, 0o755)
        for program in PROGRAMS:
            self.add_program(archive, self.root / program, f"/bin/{Path(program).name}")
        # After the programs: the applet `ip` does not know veth pairs and must not take that name.
        for applet in run(str(busybox), "--list").split():
            archive.link(f"bin/{applet}", "busybox")
        provider = only(self.root.glob("usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so"), "provider")
        self.add_program(archive, provider, "/" + str(provider.relative_to(self.root)))
        archive.file("etc/libibverbs.d/rxe.driver", self.root / "etc/libibverbs.d/rxe.driver")
        archive.text("etc/passwd", "root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")
        archive.text("etc/group", "root:x:0:\nuser:x:1000:\n")
        archive.text("etc/hosts", "127.0.0.1 localhost\n")
        archive.text("etc/modules", self._pack_modules(archive))
        archive.file("init", HERE / "init.sh", 0o755)
        self.base.write_bytes(archive.finish())

    def _pack_modules(self, archive):
        """Packs the modules and returns their paths, each after those it depends on."""
        files = {module_name(file): file for file in self.root.glob("lib/modules/*/kernel/**/*.ko")}
        order = []

        def visit(name):
            if name in order:
                return
            if name not in files:
                raise Failure(f"the kernel package has no module {name}")
            for needed in module_dependencies(files[name]):
                visit(needed)
            order.append(name)

        for name in MODULES:
            visit(name)
        for name in order:
            archive.file(f"lib/modules/{name}.ko", files[name])
        return "".join(f"/lib/modules/{name}.ko\n" for name in order)

    def add_program(self, archive, file, at):
        """Adds a program or library, and the libraries it needs."""
        archive.file(at.lstrip("/"), file, 0o755)
        for library, where in self.libraries(file):
            archive.file(where.lstrip("/"), library, 0o755)


def kernel_package():
    """The kernel that Debian means by linux-image-amd64. The one for clouds has no rdma_rxe."""

    def ask():
        listed = run("apt-cache", "depends", "linux-image-amd64", env={**os.environ, "LC_ALL": "C"})
        return re.search(r"Depends: (linux-image-\S+)", listed)

    found = None
    try:
        found = ask()
    except Failure:
        pass
    if not found:
        run("apt-get", "-q", "update")
        found = ask()
    if not found:
        raise Failure("apt knows no kernel behind linux-image-amd64")
    return found.group(1)


def module_name(file):
    """Modules are called by underscores whatever their file is called."""
    return file.stem.replace("-", "_")


def module_dependencies(file):
    found = re.search(rb"\0depends=([^\0]*)\0", file.read_bytes())
    return [name for name in found.group(1).decode().split(",") if name] if found else []


def only(files, what):
    files = list(files)
    if len(files) != 1:
        raise Failure(f"the packages hold {len(files)} files that could be the {what}, expected 1")
    return files[0]


class Archive:
    """A file system as the kernel unpacks it: cpio, the format of `newc`."""

    def __init__(self):
        self.parts = []
        self.known = set()
        self.inode = 0

    def folder(self, name):
        if name in self.known or name in ("", "."):
            return
        self.folder(os.path.dirname(name))
        self._entry(name, stat.S_IFDIR | (0o1777 if name == "tmp" else 0o755), b"")

    def file(self, name, source, mode=0o644):
        """Adds a file of the host, unless one of that name is there."""
        if name not in self.known:
            self._put(name, stat.S_IFREG | mode, Path(source).read_bytes())

    def text(self, name, text):
        self._put(name, stat.S_IFREG | 0o644, text.encode())

    def link(self, name, target):
        if name not in self.known and name != f"bin/{target}":
            self._put(name, stat.S_IFLNK | 0o777, target.encode())

    def device(self, name, major, minor):
        self._put(name, stat.S_IFCHR | 0o600, b"", (major, minor))

    def finish(self):
        self._entry("TRAILER!!!", 0, b"")
        return b"".join(self.parts)

    def _put(self, name, mode, data, device=(0, 0)):
        self.folder(os.path.dirname(name))
        self._entry(name, mode, data, device)

    def _entry(self, name, mode, data, device=(0, 0)):
        self.known.add(name)
        self.inode += 1
        path = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0]
        header = b"070701" + b"".join(b"%08x" % field for field in fields)
        for part in (header + path, data):
            self.parts.append(part + b"\0" * (-len(part) % 4))
