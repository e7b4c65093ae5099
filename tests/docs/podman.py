"""What the page for operators needs of podman, in clean directory trees: for machines without it.

An image is a tree that holds no more than a system, a new virtual environment and what the lines of
the container file put there; a container is a process that has the tree as its root. The packages
that ours depend on are those of the tests, mounted; what builds ours is in a folder of wheels.
Needs root, for mounts that end with it.
"""

import json
import os
import shlex
import shutil
import site
import subprocess
import sys
from pathlib import Path

STORE = Path(os.environ.get("PODMAN_STORE", "/nonexistent"))
SYSTEM = ("passwd", "group", "shadow", "login.defs", "hosts", "resolv.conf", "nsswitch.conf", "ssl")
PACKAGES = [Path(one) for one in site.getsitepackages()]
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
MOUNTED = (Path("/usr"), Path(sys.base_prefix), *PACKAGES)


def entered(root, words, *, user="root", values=(), mounts=()):
    """The exit code of a command whose root is a tree, with mounts (source, place, read-only)."""
    lines = ["set -e"]
    for source, place, ro in [*((p, p, True) for p in MOUNTED), ("/dev", "/dev", False), *mounts]:
        inside = shlex.quote(f"{root}/{place}")
        lines += [f"mkdir -p {inside}", f"mount --rbind {shlex.quote(str(source))} {inside}"]
        lines += [f"mount -o remount,bind,ro {inside}"] if ro else []
    home = "/root" if user == "root" else f"/home/{user}"
    path = "/venv/bin:/usr/local/bin:/usr/bin:/usr/sbin"
    environment = {"PATH": path, "HOME": home} | dict(values)
    words = ["env", "-i", *(f"{k}={v}" for k, v in environment.items()), *words]
    lines.append(f"exec chroot --userspec={user} {root} {shlex.join(words)}")
    return subprocess.run(["unshare", "-m", "sh", "-c", "\n".join(lines)], check=False).returncode


def must(code):
    if code:
        sys.exit(code)


def base(root):
    """A tree with a system, and a virtual environment for `pip`."""
    for place in ("etc", "proc", "dev", "home", "opt", "root", "usr", "var"):
        (root / place).mkdir(parents=True)
    (root / "tmp").mkdir(mode=0o777)
    (root / "tmp").chmod(0o1777)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for name in SYSTEM:
        source = Path("/etc") / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        if source.exists():
            copy(source.resolve(), root / "etc" / name)
    python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    must(entered(root, [str(python), "-m", "venv", "/venv"]))
    (place,) = (root / "venv" / "lib").glob("python*/site-packages")
    (place / "tests.pth").write_text("/packages\n")
    (root / "packages").mkdir()
    for one in (file for folder in PACKAGES for file in folder.iterdir()):
        if "taciturn" not in one.name:  # ours are those that the container file installs
            (root / "packages" / one.name).symlink_to(one)


def build(tag, file, context):
    """Execute the lines of a container file, in order."""
    root, kept = STORE / "images" / tag / "root", {"USER": "root", "ENV": {}, "ENTRYPOINT": []}
    wheels = (STORE / "wheels", "/wheels", True)

    def copy(words):
        source, place = words.split()
        shutil.copytree(Path(context) / source, root / place.lstrip("/"))

    def execute(words):
        values = kept["ENV"] | OFFLINE
        must(entered(root, ["sh", "-c", words], user=kept["USER"], values=values, mounts=[wheels]))

    does = {
        "FROM": lambda _: base(root),
        "COPY": copy,
        "RUN": execute,
        "USER": lambda name: kept.update(USER=name.strip()),
        "ENV": lambda words: kept["ENV"].update(word.split("=") for word in words.split()),
        "ENTRYPOINT": lambda words: kept.update(ENTRYPOINT=json.loads(words)),
        "VOLUME": lambda _: None,
    }
    lines = [line for line in Path(file).read_text().splitlines() if line and line[0] != "#"]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, _, rest = line.partition(" ")
        does[instruction](rest)
    (STORE / "images" / tag / "kept.json").write_text(json.dumps(kept))


def volume(name, root, place):
    """The folder of a volume; a new one is a copy of what the image has there, else root's."""
    folder = STORE / "volumes" / name
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        inside = Path(f"{root}/{place}")
        if inside.is_dir():
            subprocess.run(["cp", "-a", inside, folder], check=True)
        else:
            folder.mkdir()
    return folder


def run(words):
    """Run a container: --rm, -v SOURCE:PLACE[:ro] and --entrypoint, then image and arguments."""
    given, entrypoint = [], None
    while words[0].startswith("-"):
        option = words.pop(0)
        if option == "-v":
            given.append(words.pop(0))
        elif option == "--entrypoint":
            entrypoint = [words.pop(0)]
        elif option != "--rm":
            sys.exit(f"no option that is known here: {option}")
    image = STORE / "images" / words.pop(0)
    kept, mounts = json.loads((image / "kept.json").read_text()), []
    for one in given:
        source, place, *how = one.split(":")
        source = source if source.startswith("/") else volume(source, image / "root", place)
        mounts.append((source, place, how == ["ro"]))
    command = [*(entrypoint or kept["ENTRYPOINT"]), *words]
    must(entered(image / "root", command, user=kept["USER"], values=kept["ENV"], mounts=mounts))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build", "-t", tag, "-f", file, context]:
            build(tag, file, context)
        case ["run", *words]:
            run(words)
        case other:
            sys.exit(f"no command that is known here: {other}")
