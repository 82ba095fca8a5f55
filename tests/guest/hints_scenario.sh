#!/usr/bin/env bash
# The only program of the guest of hints.sh: runs as its first process. /result/scenario.txt says what was found,
# /result/status is the number of failed checks, and is not there if the end was not reached.
set -u
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t devtmpfs dev /dev && mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm && mount -t tmpfs run /run && mount -t tmpfs tmp /tmp
cd /result || exit 1
exec > >(tee -a scenario.txt /dev/console) 2>&1
failures=0
mine='numa.mem_remote|irq.imbalance|irq.softirq_saturation|nccl.socket_fallback|nccl.single_qp'
hostname guest
say() { printf '%4d s  %s\n' "$(cut -d. -f1 /proc/uptime)" "$*"; }
finish() {
  say "$failures checks failed"
  echo $failures >status
  sync
  sleep 1
  echo o >/proc/sysrq-trigger
  sleep 60
}
trap finish EXIT

job() { # job NAME RULE|- COMMAND...: the report must name the rule; with "-", none of those tested here
  local name=$1 rule=$2 said
  shift 2
  reveal-run --quiet --no-report --output /result/$name -- "$@" >$name.log 2>&1 || say "$name: its command failed: $(tail -n 1 $name.log)"
  reveal report /result/$name >$name.txt 2>&1 || say "$name: no report: $(tail -n 1 $name.txt)"
  said=$(grep -oE '"id": *"('"$mine"')"' /result/$name/report.json | head -n 1 | sed 's/.*: *"//; s/"//')
  said=${said:--}
  if [ "$said" = "$rule" ]; then say "ok: $name: $said"; else
    say "FAILED: $name: $said instead of $rule"
    failures=$((failures + 1))
  fi
}

eth=$(ls /sys/class/net | grep -v lo | head -n 1)
ip link set lo up && ip addr add 10.99.0.2/24 dev $eth && ip link set $eth up
ethtool -L $eth combined 4 >/dev/null 2>&1
modprobe rdma_rxe && modprobe ib_uverbs
say "$(nproc) cpus, nodes $(cat /sys/devices/system/node/online), $eth with $(ls -d /sys/class/net/$eth/queues/rx-* | wc -l) queues"

touch_memory="stress-ng --vm 1 --vm-bytes 500M --vm-method zero-one --timeout 45 --quiet"
job numa-control - numactl --cpunodebind=0 --membind=0 $touch_memory
job numa-remote numa.mem_remote numactl --cpunodebind=0 --membind=1 $touch_memory

vectors=$(awk -F: '/virtio[0-9]+-(in|out)put/ {gsub(/ /, "", $1); print $1}' /proc/interrupts)
cpu=0
for irq in $vectors; do
  echo $cpu >/proc/irq/$irq/smp_affinity_list
  cpu=$(((cpu + 1) % 4))
done
stream() { iperf3 --client 10.99.0.1 --reverse --parallel 4 --time 45; }
export -f stream
job irq-control - bash -c stream
for irq in $vectors; do echo 0 >/proc/irq/$irq/smp_affinity_list; done
job irq-piled irq.imbalance bash -c stream
grep virtio /proc/interrupts
cat /proc/net/softnet_stat

export SLURM_JOB_NUM_NODES=2
rdma link add rxe0 type rxe netdev $eth
both() { LD_PRELOAD=/usr/lib/libnccl.so.2 iperf3 --client 10.99.0.1 --bidir --bitrate 150M --time 45; }
export -f both
for irq in $vectors; do
  echo $cpu >/proc/irq/$irq/smp_affinity_list
  cpu=$(((cpu + 1) % 4))
done
job nccl-control - bash -c "stream"
job nccl-sockets nccl.socket_fallback bash -c both
