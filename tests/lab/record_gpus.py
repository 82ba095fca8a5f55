#!/usr/bin/python3
"""Records a job on two GPUs of the double of NVIDIA's library: tests/data/recordings/gpu-double.

  record_gpus.py --build BUILD DIR

DIR gets ticks.rec and the trace that the same collector wrote at the same time, live.h5. The first GPU waits for 6 s;
the second is slowed down by its power limit, reports an Xid, and is lost at the end. It runs in a process namespace of
its own, so that the recording has no other process of the machine. Needs root; exits 77 where there can be no such
namespace."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True
import keep  # noqa: E402
import record_peers  # noqa: E402
import scenario  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "doubles"))
from cards import gpu_lines  # noqa: E402

SECONDS = 26
# The double's course, from the moment at which the collector loads it.
GPUS = {"gpu0_utilization": "95*8,5*6,95*60", "gpu1_utilization": "97*22,!15*60", "gpu1_power": "600000*10,699000*6,600000*60",
        "gpu1_reasons": "0*10,4*6,0*60", "gpu1_sm_clock": "1900*10,1200*6,1900*60", "gpu1_xid": "0*12,94*60",
        "gpu0_ecc_corrected": "2+.2", "gpu0_region2_corrected": "2+.2", "memory_used": "1000000000+1000000",
        "gpu0_process_memory": "900000000", "gpu0_process_utilization": "94"}
# What the rows of these probes are made from; the rest would describe the machine.
ROWS = re.compile(rb"@@(sysconf|clock|job/roots|job/first|nvml|gpu/environment|sampler/\w+)|F/sys/devices/system/cpu/online"
                  rb"|F/proc/(loadavg|self/stat)|F/proc/\d+/(stat|status|task/\d+/schedstat)|D/proc(/\d+/task)?"
                  rb"|L/proc/(self|\d+)/ns/net")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--build", type=pathlib.Path, required=True)
    args = parser.parse_args()
    if reason := scenario.usable():
        print(f"skipped: {reason}")
        return 77
    if record_peers.INSIDE not in os.environ:
        record_peers.alone(__file__)
    build, folder = args.build.resolve(), args.folder.resolve()
    folder.mkdir(parents=True)
    lines = folder / "gpus.txt"
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "0,1", "NVML_DOUBLE": str(lines)}
    job = subprocess.Popen(["sleep", str(SECONDS)], cwd="/", env=environment)
    lines.write_text(gpu_lines(2, **GPUS, gpu0_process=str(job.pid)))
    collector = subprocess.run([build / "bin/reveal-collect", "--job", f"pid:{job.pid}", "--interval", "1s", "--probes",
                                "gpu,job", "--gpu-library", build / "doubles/nvml_double.so", "--record", folder,
                                "--output", folder / "live.h5", "--node", "n1"], cwd="/", env=environment, check=False)
    status = job.wait(), collector.returncode
    lines.unlink()
    record_peers.without_other_texts(folder / "ticks.rec", ROWS)
    keep.without_places(folder / "live.h5", folder, {})
    print(json.dumps({"status": status}))
    return 0 if status == (0, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
