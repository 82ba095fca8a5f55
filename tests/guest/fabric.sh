#!/usr/bin/env bash
# Queue pairs and counters of RDMA devices, which the machines of the other tests lack: boots an emulated node with two
# soft-RoCE devices of the kernel, one of them bonded, runs perftest there as jobs under reveal-run, and holds
# what was recorded against what iproute2 (rdma resource) and the files of the kernel say; fabric_judge.py prints the
# table. Jobs with one queue pair per connection must name nccl.single_qp, those with four must not. What one collector
# recorded (--record) is replayed here, and must give the same trace.
#
#   fabric.sh PACKAGES [DIR]      needs root: see slurm_systemd.sh, of whose kind this is
#
# JOBS=pairs-1,pairs-4 in the environment: only these of fabric_scenario.sh. NCCL is not in Debian: a library without a
# function, by its name, stands for it.
#
#   apt-get install qemu-system-x86 mmdebstrap e2fsprogs gcc python3-h5py
#
# Exit status: 0 all as expected, 1 not, 77 something is missing here. DIR/result/recording is the recording.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"

[ $# -ge 1 ] || { sed -n '8s/^# *//p' "$0" >&2 && exit 2; }
command -v gcc >/dev/null || skip "gcc is not installed"
guest_begin "$@"
guest_root "${node_packages[@]}"
echo | gcc -shared -o "$root/usr/lib/libnccl.so.2" -Wl,-soname,libnccl.so.2 -x c -
install_scenario "$here/fabric_scenario.sh"

status=0
guest_boot 1800 "init=/usr/local/sbin/scenario tsc=reliable clocksource=tsc ${JOBS:+JOBS=$JOBS}" -smp 4 -m 2048 -nic none || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
say "what was recorded, beside what iproute2 and the kernel's files say"
mkdir "$dir/package"
for package in "${packages[@]}"; do dpkg-deb -x "$package" "$dir/package"; done
python3 "$here/fabric_judge.py" "$dir/result" "$dir/package/usr/bin/reveal-collect" || status=1
rm -rf "$dir/package"
say "$([ $status = 0 ] && echo "every queue pair and every packet was counted" || echo FAILED)"
[ $status = 0 ]
