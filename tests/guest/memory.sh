#!/usr/bin/env bash
# Faults of memory placement, which need two NUMA nodes and settings of a whole kernel: boots an emulated node that has
# them, runs a job with each fault and its control under reveal-run, and asks the reports: the faulty ones must name the
# rule, the controls none of those tested here. At the end, `reveal compare` must say that the cause disappeared with the
# advised line, and `reveal try` measures the gain, which is printed, not judged.
#
#   [JOBS=migrating,churn] memory.sh PACKAGES [DIR]      needs root: see slurm_systemd.sh, of whose kind this is; DIR may
#                                                       be that of hints.sh; JOBS: only these of memory_scenario.sh
#
# The memory of the second NUMA node is a file of this machine's memory, in small pages: the emulator knows no distance,
# and this is the nearest to slower memory that it has. The gain is that of the pages' size on this machine, not of NUMA.
#
#   apt-get install qemu-system-x86 mmdebstrap e2fsprogs g++
#
# Exit status: 0 all as expected, 1 not, 77 something is missing here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"

[ $# -ge 1 ] || { sed -n '7s/^# *//p' "$0" >&2 && exit 2; }
command -v g++ >/dev/null || skip "g++ is not installed"
guest_begin "$@"
guest_root "${node_packages[@]}"
g++ -std=c++20 -O2 -Wall -Wextra -pthread -o "$root/usr/bin/memory_faults" "$here/memory_faults.cpp"
install_scenario "$here/memory_scenario.sh"

# Without the three "no" options, the emulated cpus waited for each other for ever when pages moved between the nodes.
status=0
rm -f "$dir/swap"
truncate -s 1G "$dir/swap"
machine=(-smp 4,sockets=2,cores=2,threads=1 -m 4096 -nic none
  -object memory-backend-ram,id=m0,size=2560M -object memory-backend-memfd,id=m1,size=1536M
  -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa dist,src=0,dst=1,val=21
  -drive "file=$dir/swap,if=none,id=swap,format=raw,cache=unsafe" -device virtio-blk-pci,drive=swap,bus=pcie.0)
guest_boot 2700 "init=/usr/local/sbin/scenario tsc=reliable clocksource=tsc nopti nopcid no5lvl ${JOBS:+JOBS=$JOBS}" "${machine[@]}" || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
say "$([ $status = 0 ] && echo "every fault was named, and nothing else" || echo FAILED)"
[ $status = 0 ]
