#!/usr/bin/env bash
# Nodes of one job that are configured differently: boots three emulated nodes at once, which share a folder over NFS. The
# ranks of each job run on all of them under reveal-run, and one report is made of the three traces. Huge pages of 1 GiB
# are set aside by the kernel's command line, on one node and then on all three; those of 2 MiB while the nodes run. Where
# the nodes differ, the report must name the rule, the node and the size; where they are alike, not the rule.
#
#   [JOBS=gib-one,gib-none] nodes.sh PACKAGES [DIR]      needs root: see slurm_systemd.sh, of whose kind this is; DIR may
#                                                       be that of hints.sh; JOBS: only these of nodes_scenario.sh
#
#   apt-get install qemu-system-x86 mmdebstrap e2fsprogs iproute2
#
# Exit status: 0 all as expected, 1 not, 77 something is missing here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"

[ $# -ge 1 ] || { sed -n '7s/^# *//p' "$0" >&2 && exit 2; }
guest_begin "$@"
guest_root "${node_packages[@]}"
install_scenario "$here/nodes_scenario.sh"
guest_image
guest_switch n1 n2 n3

# The lower 2 GiB of each node have the kernel in them: its page of 1 GiB is in the other two.
together() { # together RESERVED ARGUMENTS-OF-N1 ARGUMENTS-OF-N2 ARGUMENTS-OF-N3: until all have powered off
  local boot=$1 node machine machines=() ended=0
  say "booting three nodes: $boot"
  for node in n1 n2 n3; do
    shift
    cp --sparse=always "$dir/image" "$dir/$node"
    guest_run 1800 $node "init=/usr/local/sbin/scenario tsc=reliable clocksource=tsc NODE=$node RESERVED=$boot ${JOBS:+JOBS=$JOBS} $1" \
      -smp 1 -m 4096 -netdev tap,id=shared,ifname=$node,script=no,downscript=no \
      -device virtio-net-pci,netdev=shared,romfile=,mac=52:54:00:00:00:0${node#n} &
    machines+=($!)
  done
  for machine in "${machines[@]}"; do wait $machine || ended=1; done
  guest_result n1 # which served the folder of the jobs
  [ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || ended=1
  rm -rf "$dir/result-$boot" "$dir"/n[123]
  mv "$dir/result" "$dir/result-$boot"
  return $ended
}

status=0
reserved="hugepagesz=1G hugepages=1"
together one "" "$reserved" "" || status=1
together all "$reserved" "$reserved" "$reserved" || status=1
say "$([ $status = 0 ] && echo "every difference was named with its node, and nothing else" || echo FAILED)"
[ $status = 0 ]
