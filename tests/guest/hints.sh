#!/usr/bin/env bash
# The owner's hints on hardware most machines of tests lack: two NUMA nodes, a network card with several interrupt
# vectors, RDMA ports, one of them bonded. Boots an emulated node that has them, runs a job with each fault and its
# control under reveal-run, and asks the reports: the faulty ones must name the rule, the controls must not. Besides, it
# is a file server of its own: what jobs did over NFS is compared with what their traces say (hints_judge.py).
#
#   [JOBS=irq-piled,irq-control] hints.sh PACKAGES [DIR]      needs root: see slurm_systemd.sh, of whose kind this is; JOBS:
#                                                          only these of hints_scenario.sh
#
# The card's other end is a network namespace of this machine (iperf3); the RDMA ports are the kernel's own soft-RoCE on
# that card and on a bond. NCCL is not in Debian: a library without a function, by its name, stands for it.
#
#   apt-get install qemu-system-x86 mmdebstrap e2fsprogs iproute2 iperf3 gcc python3-h5py
#
# Exit status: 0 all as expected, 1 not, 77 something is missing here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"

[ $# -ge 1 ] || { sed -n '7s/^# *//p' "$0" >&2 && exit 2; }
command -v gcc >/dev/null || skip "gcc is not installed"
guest_begin "$@"
guest_root "${node_packages[@]}"

echo | gcc -shared -o "$root/usr/lib/libnccl.so.2" -Wl,-soname,libnccl.so.2 -x c -
install_scenario "$here/hints_scenario.sh"

guest_network

status=0
machine=(-smp 4,sockets=2,cores=2,threads=1 -m 3072
  -object memory-backend-ram,id=m0,size=1536M -object memory-backend-ram,id=m1,size=1536M
  -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa dist,src=0,dst=1,val=21
  "${card[@]}"
  -device virtio-net-pci,netdev=n0,romfile=,mq=on,vectors=10)
guest_boot 2300 "init=/usr/local/sbin/scenario tsc=reliable clocksource=tsc ${JOBS:+JOBS=$JOBS}" "${machine[@]}" || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
if [[ -z ${JOBS:-} || ,$JOBS, == *,nfs-work,*nfs-away,* ]]; then
  say "what was recorded of the file server"
  python3 "$here/hints_judge.py" "$dir/result" || status=1
fi
say "$([ $status = 0 ] && echo "every hint was given, none without its cause; every request was counted" || echo FAILED)"
[ $status = 0 ]
