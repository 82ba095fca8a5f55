#!/usr/bin/env bash
# Causes that need a machine of another shape than this one: boots an emulated node with two NUMA nodes, each of two cores
# with two hardware threads, with states of its cpus, a sensor of heat, and with two network cards: one at the second NUMA node, one with
# room for few packets. Runs a job with each fault and its look-alike under reveal-run, and asks the reports: the faulty
# ones must name the rule, the others none of those tested here. Needs a quiet machine: where the emulator starves, the
# recordings have too few samples to be judged.
#
#   [JOBS=clock,smt-shared] node.sh PACKAGES [DIR]     needs root: see slurm_systemd.sh, of whose kind this is; DIR may be
#                                                     that of hints.sh; JOBS: only these of node_scenario.sh
#
# Exit status: 0 all as expected, 1 not, 77 something is missing here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"

[ $# -ge 1 ] || { sed -n '8s/^# *//p' "$0" >&2 && exit 2; }
guest_begin "$@"
guest_root "${node_packages[@]}"
install_scenario "$here/node_scenario.sh"
# States of the cpus that the emulator does not have: the guest's acpi-cpufreq sets them, and nothing follows. And a sensor
# of the board that shows as many degrees as were written to port 0xb3, where the chipset keeps a byte: from 85 on, the
# guest's kernel cools the cpus.
states=()
if command -v iasl >/dev/null; then
  {
    echo 'DefinitionBlock ("", "SSDT", 2, "REVEAL", "STATES", 1) {'
    for cpu in 0 1 2 3 4 5 6 7; do
      echo "External (\\_SB.CPUS.C00$cpu, DeviceObj) Scope (\\_SB.CPUS.C00$cpu) {"
      echo 'Name (_PPC, 0) Name (_PCT, Package () {'
      echo 'ResourceTemplate () {Register (SystemIO, 16, 0, 0x1800)}, ResourceTemplate () {Register (SystemIO, 16, 0, 0x1802)}})'
      echo 'Name (_PSS, Package () {'
      echo 'Package () {3500, 100000, 10, 10, 1, 1}, Package () {2000, 50000, 10, 10, 2, 2}, Package () {1200, 20000, 10, 10, 3, 3}})}'
    done
    echo 'Scope (\_TZ) {'
    echo 'OperationRegion (KEPT, SystemIO, 0xb3, 1) Field (KEPT, ByteAcc, NoLock, Preserve) {HEAT, 8}'
    echo 'ThermalZone (BORD) {' # in tenths of a kelvin, and of a second
    echo 'Method (_TMP, 0, Serialized) {Return (HEAT * 10 + 2732)} Name (_PSV, 3582) Name (_TZP, 10)'
    echo 'Name (_TC1, 1) Name (_TC2, 2) Name (_TSP, 20) Name (_PSL, Package () {'
    printf '\\_SB.CPUS.C00%s, ' 0 1 2 3 4 5 6 7
    echo '})}}'
    echo '}'
  } >"$dir/states.asl"
  iasl -p "$dir/states" "$dir/states.asl" >"$dir/iasl.log" 2>&1 || { cat "$dir/iasl.log" && die "the table of states is wrong"; }
  states=(-acpitable "file=$dir/states.aml")
else
  say "iasl is not installed (acpica-tools): no states of the cpus, no heat"
fi

guest_network
ip netns exec $net ip tuntap add tap1 mode tap
ip netns exec $net ip addr add 10.97.0.1/24 dev tap1
ip netns exec $net ip link set tap1 up

"${in_network[@]}" python3 -c '
import socket
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind(("10.99.0.1", 7))
while True:
    line.sendto(*line.recvfrom(2048))' &
echo=$!
trap 'kill $echo 2>/dev/null || true; guest_end' EXIT

status=0
machine=(-cpu max,vendor=GenuineIntel,family=6,model=106,stepping=6 -smp 8,sockets=2,cores=2,threads=2 -m 3072
  -object memory-backend-ram,id=m0,size=1536M -object memory-backend-ram,id=m1,size=1536M
  -numa node,nodeid=0,cpus=0-3,memdev=m0 -numa node,nodeid=1,cpus=4-7,memdev=m1 -numa dist,src=0,dst=1,val=21
  -device pxb-pcie,id=far,bus=pcie.0,bus_nr=128,numa_node=1 -device pcie-root-port,id=slot0,bus=far,chassis=1,slot=1
  "${card[@]}" -device virtio-net-pci,bus=slot0,netdev=n0,romfile=,mq=on,vectors=10
  -netdev tap,id=n1,ifname=tap1,script=no,downscript=no,vhost=off -device rtl8139,bus=pcie.0,netdev=n1,romfile=
  "${states[@]}")
guest_boot 3600 "init=/usr/local/sbin/scenario tsc=reliable clocksource=tsc ${JOBS:+JOBS=$JOBS}" "${machine[@]}" || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
say "$([ $status = 0 ] && echo "every fault was named, and nothing else" || echo FAILED)"
[ $status = 0 ]
