#!/usr/bin/env bash
# The only program of the guest of node.sh: runs as its first process.
mine='numa.unbound_migrating|numa.autobalancing_churn|numa.single_node_pileup|cpu.smt_shared|irq.balance_service_off'
mine+='|irq.remote_numa|irq.imbalance|cpu.clocksource_not_tsc|io.metadata_storm|cpu.governor_powersave'
. /usr/local/sbin/first_process.sh
export REVEAL_INTERVAL=250ms # an emulated processor does not keep up with ten samples a second

eth=$(ls /sys/class/net | grep -v lo | head -n 1)
ip link set lo up && ip addr add 10.99.0.2/24 dev $eth && ip link set $eth up
ethtool -L $eth combined 4 >/dev/null 2>&1
clock=/sys/devices/system/clocksource/clocksource0/current_clocksource
say "$(nproc) cpus, threads of cpu0 $(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list), clock $(cat $clock)"
say "$eth is at NUMA node $(cat /sys/class/net/$eth/device/numa_node /sys/class/net/$eth/device/../numa_node 2>/dev/null | xargs)"

busy() { stress-ng --cpu 1 --cpu-method int64 --timeout 40 --quiet; }
memory() { stress-ng --vm 1 --vm-bytes "$1" --vm-keep --vm-method zero-one --timeout 40 --quiet; }
on() { # on CPUS COMMAND...
  taskset -c "$@"
}
export -f busy memory

if modprobe acpi_cpufreq; then
  governors=/sys/devices/system/cpu/cpufreq/policy*/scaling_governor
  modprobe -a cpufreq_powersave cpufreq_performance 2>/dev/null
  echo performance | tee $governors >/dev/null
  say "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver) with $(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies)"
  job clocks-control - sleep 35
  echo powersave | tee $governors >/dev/null
  job clocks-low cpu.governor_powersave sleep 35
  echo performance | tee $governors >/dev/null
fi

slow=$(tr ' ' '\n' <"${clock/current/available}" | grep -E 'hpet|acpi_pm' | head -n 1)
echo $slow >$clock
job clock cpu.clocksource_not_tsc sleep 35
echo tsc >$clock

# Names and attributes of many files: on a disk of the node, and over NFS from its own server.
mkdir -p /srv/files/many /mnt/files
touch /srv/files/many/{1..500}
modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,fsid=0,no_root_squash,no_subtree_check 127.0.0.1:/srv/files
rpc.mountd --no-nfs-version 3 && rpc.nfsd --no-nfs-version 3 --grace-time 10 8 && echo Y >/proc/fs/nfsd/v4_end_grace
mount -t nfs4 -o vers=4.2,noac 127.0.0.1:/ /mnt/files
ask() { # ask FOLDER: 38 s long, by six processes
  for _ in 1 2 3 4 5 6; do (end=$((SECONDS + 38)); while [ $SECONDS -lt $end ]; do stat -c %s $1/* >/dev/null; done) & done
  wait
}
export -f ask
job names-control - bash -c 'ask /srv/files/many'
job names io.metadata_storm bash -c 'ask /mnt/files/many'
grep -A 99 ' mounted on /mnt/files' /proc/self/mountstats | grep -E 'GETATTR|LOOKUP|ACCESS'
umount /mnt/files
rpc.nfsd 0

# Two threads of one core beside an idle core.
two_threads() { taskset -c 0 bash -c busy & taskset -c $1 bash -c busy; wait; }
export -f two_threads
job smt-control - bash -c 'two_threads 2'
job smt-shared cpu.smt_shared bash -c 'two_threads 1'

# Six ranks on the four cpus of one node, or on those of both.
six_ranks() { for rank in 1 2 3 4 5 6; do taskset -c $1 bash -c busy & done; wait; }
export -f six_ranks
mine_before=$mine
mine=${mine/|cpu.smt_shared/} # they share cores, too
job pileup-control - bash -c 'six_ranks 0-7'
job pileup numa.single_node_pileup bash -c 'six_ranks 0-3'
mine=$mine_before

# A kernel that looks at the memory of a bound job all the time.
mount -t debugfs debugfs /sys/kernel/debug
balancing=/sys/kernel/debug/sched/numa_balancing
job calm-control - numactl --cpunodebind=0 bash -c 'memory 300M'
echo 100 >$balancing/scan_period_max_ms && echo 100 >$balancing/scan_period_min_ms && echo 1024 >$balancing/scan_size_mb
job churn numa.autobalancing_churn numactl --cpunodebind=0 bash -c 'memory 300M'
echo 1000 >$balancing/scan_period_min_ms && echo 60000 >$balancing/scan_period_max_ms && echo 256 >$balancing/scan_size_mb

# What runs on a node drives an unbound job to the other one, to and fro; a bound one stays.
drive() { while true; do on 0-3 timeout 0.4 stress-ng --cpu 4 --quiet; on 4-7 timeout 0.4 stress-ng --cpu 4 --quiet; done; }
export -f drive on
setsid bash -c drive &
driver=$!
job bound-control - numactl --cpunodebind=0 --localalloc bash -c 'memory 200M'
job unbound numa.unbound_migrating bash -c 'memory 200M'
kill -- -$driver
wait $driver

# The card's vectors: spread beside it, all on one cpu beside it, on the other node.
vectors=$(awk -F: '/virtio[0-9]+-(in|out)put/ {gsub(/ /, "", $1); print $1}' /proc/interrupts)
spread() { # spread CPU...
  local irq cpus=("$@") i=0
  for irq in $vectors; do
    echo ${cpus[$((i++ % ${#cpus[@]}))]} >/proc/irq/$irq/smp_affinity_list
  done
}
packets() { iperf3 --client 10.99.0.1 --reverse --udp --length 100 --parallel 4 --bitrate 600K --time 45; } # 3,000 a second
export -f packets
spread 4 5 6 7
job irq-control - bash -c packets
spread 5
job irq-no-balance irq.balance_service_off bash -c packets
spread 0 1
job irq-remote irq.remote_numa bash -c packets
grep virtio /proc/interrupts
