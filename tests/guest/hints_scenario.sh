#!/usr/bin/env bash
# The only program of the guest of hints.sh: runs as its first process. /result/scenario.txt says what was found,
# /result/status is the number of failed checks, and is not there if the end was not reached.
mine='numa.mem_remote|irq.imbalance|irq.softirq_saturation|nccl.socket_fallback|nccl.single_qp|io.nfs_slow_server'
mine+='|io.metadata_storm'
. /usr/local/sbin/first_process.sh

eth=$(ls /sys/class/net | grep -v lo | head -n 1)
ip link set lo up && ip addr add 10.99.0.2/24 dev $eth && ip link set $eth up
ethtool -L $eth combined 4 >/dev/null 2>&1
modprobe rdma_rxe && modprobe ib_uverbs
say "$(nproc) cpus, nodes $(cat /sys/devices/system/node/online), $eth with $(ls -d /sys/class/net/$eth/queues/rx-* | wc -l) queues"

touch_memory="stress-ng --vm 1 --vm-bytes 500M --vm-method zero-one --timeout 45 --quiet"
job numa-control - numactl --cpunodebind=0 --membind=0 $touch_memory
job numa-remote numa.mem_remote numactl --cpunodebind=0 --membind=1 $touch_memory
# Others fill the node; the job would rather have its memory there.
numactl --membind=0 stress-ng --vm 1 --vm-bytes 1000M --vm-keep --vm-hang 0 --timeout 90 --quiet &
sleep 12
job numa-spill numa.mem_remote numactl --cpunodebind=0 --localalloc stress-ng --vm 1 --vm-bytes 700M --vm-keep \
  --vm-method zero-one --timeout 45 --quiet
kill $! 2>/dev/null
wait $!

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

# The kernel's own file server, over lo; version 4 needs no port mapper.
mkdir -p /srv/files /mnt/files
modprobe nfsd && mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,fsid=0,no_root_squash,no_subtree_check 127.0.0.1:/srv/files
rpc.mountd --no-nfs-version 3 && rpc.nfsd --no-nfs-version 3 --grace-time 10 4 && echo Y >/proc/fs/nfsd/v4_end_grace
mount_files() { mount -t nfs4 -o "vers=4.2,hard,$1" 127.0.0.1:/ /mnt/files && grep ' nfs4 ' /proc/mounts; }
counted() { # counted NAME PAUSE: the client's statistics, when no row is half done
  sleep $2
  cat /proc/self/mountstats >$1.mountstats
  cat /proc/net/rpc/nfs >$1.rpc
  cut -d' ' -f1 /proc/uptime >$1.uptime
  sleep 3
}
nfs_work() {
  counted nfs-work-before 15 # until a collector on an emulated node has its first rows
  dd if=/dev/zero of=/mnt/files/file bs=1M count=64 conv=fsync
  echo 3 >/proc/sys/vm/drop_caches
  dd if=/mnt/files/file of=/dev/null bs=1M count=64 iflag=direct
  mkdir /mnt/files/many && touch /mnt/files/many/{1..100} && ls -l /mnt/files/many | tail -n 1 && rm /mnt/files/many/*
  counted nfs-work-after 3
}
# without_server NAME SECONDS: it neither answers nor refuses; then the connection breaks, and requests are sent again.
without_server() {
  cut -d' ' -f1 /proc/uptime >/result/$1-from
  tc qdisc add dev lo root netem loss 100%
  fault begins
  sleep $2
  ss --tcp --numeric --kill state established dport = :2049
  tc qdisc del dev lo root
  fault ends
  cut -d' ' -f1 /proc/uptime >/result/$1-until
}
nfs_away() {
  counted nfs-away-before 15
  local pause=$(drawn 8 16)
  cd /mnt/files
  hash cut sleep ss # where a program is, bash asks in this folder first, and would hang
  dd if=/dev/zero of=file bs=64k oflag=dsync &
  sleep $pause
  without_server nfs-away 22
  sleep 12
  kill $!
  wait $!
  cd /result
  counted nfs-away-after 3
}
export -f counted without_server nfs_work nfs_away
mount_files timeo=600
job nfs-work - bash -c nfs_work
umount /mnt/files && mount_files timeo=10,retrans=1
job nfs-away io.nfs_slow_server bash -c nfs_away
# The results themselves belong on the server, which is away while the job is recorded, and again when its command ends.
if chosen nfs-output; then
  output=/mnt/files/nfs-output status=0 JOB_NAME=nfs-output
  {
    until [ -e /tmp/nfs-output ]; do sleep 0.5; done
    sleep 15
    without_server nfs-output 22
    sleep 20
    without_server nfs-output-end 30
  } &
  reveal-run --quiet --no-report --output $output -- sh -c 'touch /tmp/nfs-output; sleep 62; exit 7' >nfs-output.log 2>&1 ||
    status=$?
  over=$(cut -d' ' -f1 /proc/uptime)
  wait $!
  say "nfs-output: status $status at $over s, server away from $(cat nfs-output-end-from) to $(cat nfs-output-end-until) s"
  ls -lA $output
  # reveal-run waits for the server for some seconds only: then the trace stays whole on the node.
  trace=$(find $output /tmp /var/tmp -name guest.h5 -size +0 | head -n 1)
  if [ $status = 7 ] && [ -n "$trace" ] && mkdir -p /result/nfs-output && cp "$trace" /result/nfs-output/; then
    say "ok: nfs-output: the trace is $trace"
  else
    say "FAILED: nfs-output: no trace"
    failures=$((failures + 1))
  fi
fi
umount /mnt/files

# Attributes of many small files, without a cache of them: here, and of files on the node's own disk.
export REVEAL_INTERVAL=1s # with four processes that ask, little time is left
mkdir /srv/files/many /many
touch {/srv/files,}/many/{1..500}
attributes() { # attributes FOLDER: long after the start, of which a burst may be a part
  sleep $(drawn 70 80)
  fault begins
  for _ in 1 2 3 4; do timeout 50 bash -c "while :; do for file in $1/*; do [ -s \$file ]; done; done" & done
  wait
  fault ends
}
export -f attributes
mount_files timeo=600,noac
job names-control - bash -c 'attributes /many'
job names io.metadata_storm bash -c 'attributes /mnt/files/many'
umount /mnt/files
rpc.nfsd 0

export SLURM_JOB_NUM_NODES=2
cpu=0
for irq in $vectors; do
  echo $cpu >/proc/irq/$irq/smp_affinity_list
  cpu=$(((cpu + 1) % 4))
done
rdma link add rxe0 type rxe netdev $eth
both() { LD_PRELOAD=/usr/lib/libnccl.so.2 iperf3 --client 10.99.0.1 --bidir --bitrate 150M --time 45; }
export -f both
job nccl-control - bash -c "stream"
job nccl-sockets nccl.socket_fallback bash -c both

# The rule knows a port of several links by its name. Both ends of the connection are here: soft-RoCE over itself.
modprobe bonding && modprobe dummy
ip link add bond7 type bond mode active-backup miimon 100 && ip link add dummy7 type dummy
ip link set dummy7 master bond7 && ip link set bond7 up && ip addr add 10.98.0.1/24 dev bond7
rdma link add mlx5_bond_0 type rxe netdev bond7
sleep 2
over_bond() { # over_bond QUEUE-PAIRS
  export LD_PRELOAD=/usr/lib/libnccl.so.2
  ib_write_bw --ib-dev mlx5_bond_0 --qp $1 --duration 40 --CPU-freq >/dev/null &
  sleep 3
  ib_write_bw --ib-dev mlx5_bond_0 --qp $1 --duration 40 --CPU-freq 10.98.0.1
  wait
}
export -f over_bond
NCCL_IB_QPS_PER_CONNECTION=2 job bond-control - bash -c 'over_bond 2'
job bond-one-pair nccl.single_qp bash -c 'over_bond 1'
grep . /sys/class/infiniband/mlx5_bond_0/ports/1/{state,rate,hw_counters/{sent,rcvd}_pkts}
exit 0
