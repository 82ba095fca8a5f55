"""What tests in Python share: the source and the build under test, failures, and the exit status that ctest understands.

A test finds it by its own place, so that it runs from any directory:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from harness import BUILD, check, end, skip"""
import os
import pathlib
import sys
from typing import NoReturn

sys.dont_write_bytecode = True  # of the modules of bench/ that a test imports
SOURCE = pathlib.Path(os.environ.get("REVEAL_SOURCE", pathlib.Path(__file__).resolve().parent.parent)).resolve()
BUILD = pathlib.Path(os.environ.get("REVEAL_BUILD", SOURCE / "build")).resolve()
NODE_MODULES = pathlib.Path(os.environ.get("REVEAL_NODE_MODULES", BUILD.parent / "npm/node_modules")).resolve()
# A program that runs the command behind it as two ranks, as torchrun does.
TWO_RANKS = """
import os, socket, subprocess, sys
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = str(free.getsockname()[1])
ranks = [subprocess.Popen([sys.executable, *sys.argv[1:]], env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2",
         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}) for rank in range(2)]
sys.exit(max(rank.wait() for rank in ranks))
"""
# The function of PyTorch 1.13 that carries out a collective of gloo's.
GLOO_WORK = ("_ZN4c10d16ProcessGroupGloo9AsyncWork7executeEN3c1013intrusive_ptrIS1_NS2_6detail34intrusive_target_default_"
             "null_typeIS1_EEEE")
failures = []


def skip(why) -> NoReturn:
    print("skipped:", why)
    sys.exit(77)


def program(name):
    path = BUILD / "bin" / name
    if not path.exists():
        skip(f"{path} is not built")
    return str(path)


def npm_package(name):
    """The folder of a package of tests/package.json, which tests/run.sh installs."""
    folder = NODE_MODULES / name
    if not folder.exists():
        skip(f"the npm package {name} is not in {NODE_MODULES}: tests/run.sh installs it where npm is there")
    return folder


def fail(what):
    failures.append(what)
    print("FAILED:", what, flush=True)


def check(condition, what):
    if not condition:
        fail(what)


def end() -> NoReturn:
    sys.exit(1 if failures else 0)
