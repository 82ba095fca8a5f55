#!/usr/bin/python3
"""Packs runs of the laboratory, or jobs of an emulated node, as recordings for the tests: traces and truth, less what
names the machine.

  keep.py RUN... [--to tests/data/traces/lab]
  keep.py RUN --words "led to lost packets" --leads-to net.tcp_retrans_fault
  keep.py RUN --rule net.tx_queue_drop --without net.tcp_retrans_fault    a look-alike of which something else is true
  keep.py DIR/result/link-loss --guest fabric --rule rdma.retries --instance rxe0:1
  keep.py DIR/result-one/jobs/gib-one --guest nodes --rule mem.hugepages_inconsistent --node n2 --words "of 1 GiB"
  keep.py DIR/result/link-control --guest fabric --rule rdma.retries      the control of this rule
  keep.py RESULTS/starved --tested gpu.xid,gpu.starved_input --rule gpu.starved_input --node gpu --instance gpu0

A recording is NAME.tar.xz with truth.json and job/*.h5. `lab_replay_test` and `guest_replay_test` demand that `reveal
report` still says of each what it should, so keep only runs that are explained, and look-alikes without a finding."""
import argparse
import io
import json
import lzma
import pathlib
import re
import shutil
import sys
import tarfile
import tempfile

import h5py

HERE = pathlib.Path(__file__).resolve().parent
# What a trace says of the place where the laboratory ran.
REPLACED = {rb"job\.cgroup\.memory": b"/job", rb"gpu\..*\.uuid": b"GPU-00000000-0000-0000-0000-000000000000",
            rb"kernel\.release": b"6.18.44"}
BOOT = b"kernel.boot_id"  # nodes with the same one share a kernel


def texts_of(dataset: h5py.Dataset) -> list[str | None]:
    """The columns of a table that are texts; [None] for a list of texts."""
    if dataset.dtype.names:
        return [name for name in dataset.dtype.names if dataset.dtype[name].kind == "S"]
    return [None] if dataset.dtype.kind == "S" else []


def without_places(trace: pathlib.Path, run: pathlib.Path, boots: dict[bytes, bytes]):
    """`boots`: what stands for the boots of the run's nodes so far."""

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
            for pattern, value in REPLACED.items():
                rows["value"][[re.fullmatch(pattern, key) is not None for key in rows["key"]]] = value
            for boot in rows["value"][rows["key"] == BOOT]:
                boots.setdefault(boot, b"00000000-0000-0000-0000-%012d" % len(boots))
                rows["value"][rows["key"] == BOOT] = boots[boot]
        item[...] = rows

    with h5py.File(trace, "r+") as file:
        file.visititems(clean)


def truth_of_guest(args) -> dict:
    """Rule, node and what its finding names; `looked_for`: the rule of whose fault it is the control."""
    if args.tested:
        tested = args.tested.split(",")
    else:
        scenario = (HERE.parent / f"guest/{args.guest}_scenario.sh").read_text()
        tested = "".join(re.findall(r"^mine\+?='(.*)'$", scenario, re.M)).split("|")
    truth = {"tested": tested, "node": args.node, "rule": None, "looked_for": [args.rule]}
    named = {"instance": args.instance, "words": args.words}
    return truth | {"rule": args.rule} | named if any(named.values()) else truth


def truth_of_lab(run: pathlib.Path, args) -> dict:
    """With what the report must say of a chain: words of its first finding, and the rule of one that is folded into it;
    and the rule that it must not name."""
    more = {"rule": args.rule, "words": args.words, "leads_to": args.leads_to, "without": args.without}
    return json.loads((run / "truth.json").read_text()) | {key: value for key, value in more.items() if value}


def pack(run: pathlib.Path, truth: bytes, to: pathlib.Path) -> pathlib.Path:
    packed = to / f"{run.name}.tar.xz"
    with tempfile.TemporaryDirectory() as scratch, lzma.open(packed, "wb", preset=9 | lzma.PRESET_EXTREME) as out:
        with tarfile.open(fileobj=out, mode="w") as archive:
            traces = sorted((run / "job").glob("*.h5")) or sorted(run.glob("*.h5"))
            if not traces:
                sys.exit(f"keep: {run} has no trace")
            boots: dict[bytes, bytes] = {}
            for trace in traces:
                copy = pathlib.Path(shutil.copy(trace, scratch))
                without_places(copy, run, boots)
                add(archive, f"job/{trace.name}", copy.read_bytes())
            add(archive, "truth.json", truth)
    return packed


def add(archive: tarfile.TarFile, name: str, data: bytes):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), 0o600
    archive.addfile(member, io.BytesIO(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path, metavar="RUN")
    parser.add_argument("--to", type=pathlib.Path)
    parser.add_argument("--guest", help="its name: fabric")
    parser.add_argument("--tested", help="of a job elsewhere: the rules that it tests, and no other may be found first")
    parser.add_argument("--node", default="guest", help="that of the fault (default: %(default)s)")
    parser.add_argument("--rule")
    parser.add_argument("--instance", help="the place that the finding must name")
    parser.add_argument("--words", help="its sentence must have these; of a guest without both, there must be no finding")
    parser.add_argument("--leads-to", help="of a run of the laboratory: the rule of a finding that its fault must be the cause of")
    parser.add_argument("--without", help="of a run of the laboratory: a rule that its report must not name")
    args = parser.parse_args()
    to = args.to or HERE.parent / "data/traces" / ("guest" if args.guest else "gpu" if args.tested else "lab")
    to.mkdir(parents=True, exist_ok=True)
    for run in map(pathlib.Path.resolve, args.runs):
        truth = truth_of_guest(args) if args.guest or args.tested else truth_of_lab(run, args)
        packed = pack(run, json.dumps(truth).encode(), to)
        print(f"{packed.name}: {packed.stat().st_size} bytes")


if __name__ == "__main__":
    main()
