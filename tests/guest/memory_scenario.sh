#!/usr/bin/env bash
# The only program of the guest of memory.sh: runs as its first process.
mine='numa.single_node_pileup|numa.unbound_migrating|numa.autobalancing_churn|numa.mem_remote'
. /usr/local/sbin/first_process.sh
export REVEAL_INTERVAL=250ms # an emulated processor does not keep up with ten samples a second
mount -t debugfs debugfs /sys/kernel/debug
say "$(nproc) cpus, nodes $(cat /sys/devices/system/node/online), balancing $(cat /proc/sys/kernel/numa_balancing)"
grep -H MemFree /sys/devices/system/node/node*/meminfo

counted() { # counted job NAME ...: and the kernel's own counters meanwhile
  chosen $2 || return 0
  local before
  before=$(cat /proc/vmstat)
  "$@"
  say "$2: $(join <(sort <<<"$before") <(sort /proc/vmstat) |
    awk '$1 ~ /^(numa_hint_faults|numa_hint_faults_local|numa_pages_migrated|compact_stall|pgscan_direct|pswpout)$/ && $3 > $2 {print $1, $3 - $2}' | xargs)"
}
megabytes_free() { awk '/MemFree/ {printf "%d", $4 / 1024}' /sys/devices/system/node/node$1/meminfo; }

# A rank that has free cpus on each NUMA node in turn, and one that may not follow.
counted job visit-control - taskset -c 0-1 memory_faults visit 256 50
counted job migrating numa.unbound_migrating memory_faults visit 256 50

export REVEAL_INTERVAL=1s
# The kernel looks at all memory of a process once in a scan period, which it prolongs up to a minute where the pages are
# in place. On a node with 200 GB that are 800,000 faults a second; here as many pages are looked at in a shorter time.
balancing=/sys/kernel/debug/sched/numa_balancing
sweep_bound="taskset -c 0-1 memory_faults share 400 45" # without a policy for the memory, which the kernel respects
counted job churn-control - $sweep_bound
usual=$(cat $balancing/scan_period_max_ms $balancing/scan_size_mb)
echo 500 >$balancing/scan_period_max_ms
echo 128 >$balancing/scan_size_mb # a second: what the emulator can do evenly
counted job churn numa.autobalancing_churn $sweep_bound
echo 0 >/proc/sys/kernel/numa_balancing
counted job churn-off - $sweep_bound
echo 1 >/proc/sys/kernel/numa_balancing
echo ${usual%%$'\n'*} >$balancing/scan_period_max_ms
echo ${usual##*$'\n'} >$balancing/scan_size_mb

# Ranks on the cpus of one node beside a rank that has another node for itself and does little.
busy="memory_faults sweep 8 45" light="numactl --cpunodebind=1 sleep 45"
job_of_ranks crowd-control - "numactl --cpunodebind=0 $busy" "numactl --cpunodebind=0 sleep 45" \
  "numactl --cpunodebind=1 $busy" "$light"
job_of_ranks crowd numa.single_node_pileup "numactl --cpunodebind=0 $busy" "numactl --cpunodebind=0 $busy" \
  "numactl --cpunodebind=0 $busy" "$light"

# A job larger than the node that it is bound to, beside a node with room.
mkswap /dev/vdb >/dev/null && swapon /dev/vdb
echo 3 >/proc/sys/vm/drop_caches
large=$(($(megabytes_free 0) + 150))
say "a job of $large MB beside $(megabytes_free 1) MB on node 1"
counted job full-control - numactl --cpunodebind=0 --preferred=0 memory_faults sweep $large 45
counted job full numa.single_node_pileup numactl --cpunodebind=0 --membind=0 memory_faults sweep $large 45

swapoff /dev/vdb
echo 3 >/proc/sys/vm/drop_caches

# What the advised lines bring: for memory on the other node, and for the node that is too small. The rule must name the
# cause in each run before, in none after, and the comparison must say so. How much is gained is not judged.
if chosen gain; then
  chase="memory_faults chase 400 ${CHASE_MILLIONS:-160}" # a report needs 32 s to be judged
  right="numactl --cpunodebind=0 --membind=0" wrong="numactl --cpunodebind=0 --membind=1"
  for i in 1 2 3 4; do
    record wrong-$i $wrong $chase
    judge wrong-$i numa.mem_remote
    record right-$i $right $chase
    judge right-$i -
  done
  reveal compare --before /result/wrong-{1,2,3,4} --after /result/right-{1,2,3,4} | tee gain.txt
  expected "gain: numa.mem_remote disappeared" grep -qE '^ *disappeared +numa\.mem_remote:' gain.txt
  $wrong reveal try --with "$right" --runs 4 -- $chase
  swapon /dev/vdb
  numactl --cpunodebind=0 --membind=0 reveal try --with "numactl --interleave=all" --runs 3 -- \
    memory_faults chase $large 1
fi
exit 0 # the answers of `try` are not judged
