#!/usr/bin/python3
"""Packs runs of the laboratory as recordings for the tests: traces and truth, less what names the machine.

  keep.py RUN... [--to tests/data/traces/lab]

A recording is NAME.tar.xz with truth.json and job/*.h5. `lab_replay_test` demands that `reveal report` still says of
each what it should, so keep only runs that are explained, and look-alikes without a finding."""
import argparse
import io
import lzma
import pathlib
import shutil
import sys
import tarfile
import tempfile

import h5py

HERE = pathlib.Path(__file__).resolve().parent
# What a trace says of the place where the laboratory ran.
REPLACED = {b"job.cgroup.memory": b"/job", b"kernel.boot_id": b"00000000-0000-0000-0000-000000000000"}


def texts_of(dataset: h5py.Dataset) -> list[str | None]:
    """The columns of a table that are texts; [None] for a list of texts."""
    if dataset.dtype.names:
        return [name for name in dataset.dtype.names if dataset.dtype[name].kind == "S"]
    return [None] if dataset.dtype.kind == "S" else []


def without_places(trace: pathlib.Path, run: pathlib.Path):
    def clean(name: str, item):
        if not isinstance(item, h5py.Dataset) or not (columns := texts_of(item)):
            return
        rows = item[()]
        for column in columns:
            texts = rows if column is None else rows[column]
            for index, text in enumerate(texts):
                if str(run).encode() in text:
                    texts[index] = text.replace(str(run).encode(), b"/scratch")
        if name in ("node/begin", "node/end"):
            for key, value in REPLACED.items():
                rows["value"][rows["key"] == key] = value
        item[...] = rows

    with h5py.File(trace, "r+") as file:
        file.visititems(clean)


def pack(run: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    packed = to / f"{run.name}.tar.xz"
    with tempfile.TemporaryDirectory() as scratch, lzma.open(packed, "wb", preset=9 | lzma.PRESET_EXTREME) as out:
        with tarfile.open(fileobj=out, mode="w") as archive:
            traces = sorted((run / "job").glob("*.h5"))
            if not traces:
                sys.exit(f"keep: {run} has no trace")
            for trace in traces:
                copy = pathlib.Path(shutil.copy(trace, scratch))
                without_places(copy, run)
                add(archive, f"job/{trace.name}", copy.read_bytes())
            add(archive, "truth.json", (run / "truth.json").read_bytes())
    return packed


def add(archive: tarfile.TarFile, name: str, data: bytes):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
    parser.add_argument("--to", type=pathlib.Path, default=HERE.parent / "data/traces/lab")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    for run in args.runs:
        packed = pack(run.resolve(), args.to)
        print(f"{packed.name}: {packed.stat().st_size} bytes")


if __name__ == "__main__":
    main()
