#!/usr/bin/env bash
# The owner's hints on hardware most machines of tests lack: two NUMA nodes, a network card with several interrupt
# vectors, RDMA ports, one of them bonded. Boots an emulated node that has them, runs a job with each fault and its
# control under reveal-run, and asks the reports: the faulty ones must name the rule, the controls must not. Besides, it
# is a file server of its own: what jobs did over NFS is compared with what their traces say (hints_judge.py).
#
#   hints.sh PACKAGE.deb [DIR]      needs root: see slurm_systemd.sh, of whose kind this is
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
for program in ip iperf3 gcc; do command -v $program >/dev/null || skip "$program is not installed"; done
guest_begin "$@"
guest_root linux-image-amd64 procps iproute2 iperf3 numactl stress-ng rdma-core ibverbs-utils perftest kmod udev \
  ethtool mawk python3-minimal nfs-kernel-server

echo | gcc -shared -o "$root/usr/lib/libnccl.so.2" -Wl,-soname,libnccl.so.2 -x c -
install -m 755 "$here/hints_scenario.sh" "$root/usr/local/sbin/scenario"

net=rvguest$$
ip netns add $net
ip netns exec $net ip tuntap add tap0 mode tap multi_queue
ip netns exec $net ip addr add 10.99.0.1/24 dev tap0
ip netns exec $net ip link set tap0 up
ip netns exec $net iperf3 --server --daemon --pidfile "$dir/iperf3.pid"
cleanup() {
  kill "$(tr -d '\0' <"$dir/iperf3.pid")" 2>/dev/null || true
  ip netns del $net
  rm -rf "$dir/root" "$dir/base.new"
}
trap cleanup EXIT

status=0
in_network=(ip netns exec $net)
machine=(-smp 4,sockets=2,cores=2,threads=1 -m 3072
  -object memory-backend-ram,id=m0,size=1536M -object memory-backend-ram,id=m1,size=1536M
  -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 -numa dist,src=0,dst=1,val=21
  -netdev tap,id=n0,ifname=tap0,script=no,downscript=no,queues=4,vhost=off
  -device virtio-net-pci,netdev=n0,romfile=,mq=on,vectors=10)
guest_boot 900 "init=/usr/local/sbin/scenario" "${machine[@]}" || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
say "what was recorded of the file server"
python3 "$here/hints_judge.py" "$dir/result" || status=1
say "$([ $status = 0 ] && echo "every hint was given, none without its cause; every request was counted" || echo FAILED)"
[ $status = 0 ]
