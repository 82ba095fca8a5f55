#!/usr/bin/env bash
# The only program of the guest of fabric.sh: runs as its first process.
mine='nccl.single_qp|nccl.socket_fallback|rdma.retries|ib.link_degraded'
. /usr/local/sbin/first_process.sh
export REVEAL_INTERVAL=250ms # an emulated processor does not keep up with ten samples a second
export SLURM_JOB_NUM_NODES=2 # both ends of each connection are here, but as jobs have them on two nodes

ip link set lo up
modprobe -a rdma_rxe ib_uverbs bonding dummy veth
# The rule knows a port of several links by its name.
ip link add bond7 type bond mode active-backup miimon 100 && ip link add dummy7 type dummy
ip link set dummy7 master bond7 && ip link set bond7 up && ip addr add 10.98.0.1/24 dev bond7
rdma link add mlx5_bond_0 type rxe netdev bond7
ip link add plain7 type veth peer name other7 && ip link set other7 up && ip link set plain7 up
ip addr add 10.97.0.1/24 dev plain7
rdma link add rxe0 type rxe netdev plain7
sleep 2
say "$(uname -r): $(rdma link show | tr '\n' ';')"

counted() { # counted NAME: what a person reads, at a time without traffic
  (cd /sys/class/infiniband && grep . ./*/ports/*/hw_counters/*) >$1.counters
  cut -d' ' -f1 /proc/uptime >$1.uptime
}
told() { # told NAME: what iproute2 says
  rdma -j resource show qp >$1.qp.json
  rdma -j resource show cq >$1.cq.json
}
served() { # served NAME COMMAND...: the first rows come before it, and its last packets before the last rows
  local name=$1
  shift
  cd /result
  sleep 14
  counted $name-before
  sleep 3
  "$@" &
  sleep 20
  told $name
  wait
  sleep 3
  counted $name-after
  sleep 3
}
# Short queues and long patience: the emulator is slow, and soft-RoCE gives up early.
writes() { # writes DEVICE ADDRESS PAIRS
  local options="--ib-dev $1 --qp $3 --duration 30 --size 4096 --tx-depth 8 --qp-timeout 19 --CPU-freq"
  ib_write_bw $options >>server.log 2>&1 &
  sleep 3
  ib_write_bw $options $2 >>client.log 2>&1
  wait $!
}
export -f counted told served writes
# As in each process of a rank: which of the job's processes is looked at for its libraries, nobody knows.
with_nccl() { # with_nccl NAME RULE|- SCRIPT
  job $1 $2 env LD_PRELOAD=/usr/lib/libnccl.so.2 bash -c "$3"
}

# For the recording; with few probes, so that it stays small.
if [[ -z ${JOBS:-} || ,$JOBS, == *,recording,* ]]; then
  bash -c 'served recording writes mlx5_bond_0 10.98.0.1 4' &
  recorded=$!
  reveal-collect --job pid:$recorded --interval 1s --probes infiniband,rdma_queues,job --record recording --output recording.h5
  say "recorded: $(stat -c %s recording/ticks.rec) bytes"
  wait $recorded
fi

with_nccl pairs-1 nccl.single_qp 'served pairs-1 writes mlx5_bond_0 10.98.0.1 1'
with_nccl pairs-4 - 'served pairs-4 writes mlx5_bond_0 10.98.0.1 4'
export NCCL_IB_QPS_PER_CONNECTION=4
with_nccl set-in-vain nccl.single_qp 'served set-in-vain writes mlx5_bond_0 10.98.0.1 1'
unset NCCL_IB_QPS_PER_CONNECTION
with_nccl one-path - 'served one-path writes rxe0 10.97.0.1 1'

# Two devices on the two ends of one link, in one kernel: what each sends to the other's address goes over the link only
# because the table of own addresses is asked last. What the link loses, the sender repeats.
ip addr add 10.97.0.2/24 dev other7
for end in plain7 other7; do sysctl -qw net.ipv4.conf.$end.accept_local=1 net.ipv4.conf.$end.rp_filter=0; done
sysctl -qw net.ipv4.conf.all.rp_filter=0
ip rule add pref 100 lookup local && ip rule del pref 0
ip route add 10.97.0.2 dev plain7 src 10.97.0.1 table 97 && ip rule add pref 10 iif lo to 10.97.0.2 lookup 97
ip route add 10.97.0.1 dev other7 src 10.97.0.2 table 98 && ip rule add pref 11 iif lo to 10.97.0.1 lookup 98
rdma link add rxe1 type rxe netdev other7
sleep 2
lossy() { # lossy PERCENT: for 20 s of 80
  local options="--qp 1 --duration 80 --size 4096 --tx-depth 8 --qp-timeout 19 --CPU-freq"
  ib_write_bw --ib-dev rxe1 $options >>server.log 2>&1 &
  sleep 3
  (sleep $(drawn 15 30) && tc qdisc add dev plain7 root netem loss $1% && fault begins && sleep 20 &&
    tc -s qdisc show dev plain7 | grep dropped && tc qdisc del dev plain7 root && fault ends) &
  ib_write_bw --ib-dev rxe0 $options 10.97.0.2 >>client.log 2>&1
  wait
}
export -f lossy
export REVEAL_INTERVAL=1s # both ends poll their queues, and leave little time
job link-control - bash -c 'lossy 0'
job link-loss rdma.retries bash -c 'lossy 1'
grep . /sys/class/infiniband/rxe0/ports/1/hw_counters/{sent_pkts,rcvd_seq_err,completer_retry_err,retry_exceeded_err}

# A link that is down when the job ends, and one that has come back.
fails() { sleep $(drawn 12 20) && ip link set other7 down && fault begins && sleep 10; }
comes_back() { fails && ip link set other7 up && sleep 10; }
export -f fails comes_back
job port-back - bash -c comes_back
job port-down ib.link_degraded bash -c fails
