#!/usr/bin/env bash
# The only program of the guest of node.sh: runs as its first process.
mine='cpu.smt_shared|cpu.clocksource_not_tsc|cpu.governor_powersave|cpu.smi_noise|irq.remote_numa'
mine+='|irq.imbalance|irq.softirq_saturation|net.nic_rx_drop|irq.balance_service_off'
mine+='|cpu.freq_oscillation|cpu.thermal_throttle'
. /usr/local/sbin/first_process.sh
# chain NAME RULE|- WORDS|- COMMAND...: the report must name the rule first, also of those of disks, neighbours and other
# processes, and say that it led to WORDS; with "-", it must name no clock.
chain() {
  local mine="$mine|io.local_disk_saturated|io.slow_reads|node.noisy_neighbour|cpu.outsider|cpu.os_jitter" name=$1 words=$3
  chosen $name || return 0
  record $name "${@:4}"
  judge $name $2
  if [ "$words" = - ]; then
    ! found $name | grep -qx cpu.freq_oscillation || words="no clock"
  else
    ! grep -q "led to[^\"]*$words" $jobs/$name/report.json || words=-
  fi
  [ "$words" = - ] || {
    say "FAILED: $name: its findings $(found $name | xargs) do not say: $words"
    failures=$((failures + 1))
  }
}
export REVEAL_INTERVAL=250ms # an emulated processor does not keep up with ten samples a second

card_of() { # card_of DRIVER: its interface
  local each
  for each in /sys/class/net/*; do
    [ "$(basename "$(readlink -f "$each/device/driver")")" = "$1" ] && basename "$each"
  done
}
modprobe 8139cp
far=$(card_of virtio_net) small=$(card_of 8139cp)
ip link set lo up
ip addr add 10.99.0.2/24 dev $far && ip link set $far up
ip addr add 10.97.0.2/24 dev $small && ip link set $small up
ethtool -L $far combined 4 >/dev/null 2>&1
clock=/sys/devices/system/clocksource/clocksource0/current_clocksource
say "$(nproc) cpus, threads of cpu0 $(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list), clock $(cat $clock)"
say "$far is at NUMA node $(cat /sys/class/net/$far/device/numa_node /sys/class/net/$far/device/../numa_node 2>/dev/null | xargs)"

busy() { stress-ng --cpu 1 --cpu-method int64 --timeout 40 --quiet; }
export -f busy

# The chipset's port by which programs call the firmware, whose handler is set up on cpu0; the other port tells nobody.
call() { # call PORT: several times a second
  for _ in {1..200}; do
    printf '\001' | taskset -c 0 dd of=/dev/port bs=1 seek=$(($1)) count=1 status=none
    sleep 0.1
  done
}
export -f call
job firmware-control - bash -c 'call 0x80'
job firmware cpu.smi_noise bash -c 'call 0xb2'

# A card with room for 64 packets: one after the other, and as many in bursts of 250.
single() { iperf3 --client 10.97.0.1 --reverse --udp --length 1000 --bitrate 4M --time "$1"; }
bursts() { iperf3 --client 10.97.0.1 --reverse --udp --length 1000 --bitrate 4M/250 --time "$1"; }
export -f single bursts
job drop-control - bash -c 'single 15; single 20; single 15'
job drop net.nic_rx_drop bash -c 'single $(drawn 12 18); fault begins; bursts 20; fault ends; single 15'
grep $small: /proc/net/dev

# The other card's vectors: beside it, and on the other NUMA node.
vectors=$(awk -F: '/virtio[0-9]+-(in|out)put/ {gsub(/ /, "", $1); print $1}' /proc/interrupts)
spread() { # spread CPU...
  local irq cpus=("$@") i=0
  for irq in $vectors; do
    echo ${cpus[$((i++ % ${#cpus[@]}))]} >/proc/irq/$irq/smp_affinity_list
  done
}
cat >/tmp/asker.py <<'EOP'
import socket, time
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.connect(("10.99.0.1", 7))
line.settimeout(0.1)
end, answers = time.monotonic() + 40, 0
while time.monotonic() < end:
    line.send(b"?")
    try:
        answers += len(line.recv(16))
    except socket.timeout:
        pass
print(answers, "answers")
EOP
packets() { for _ in {1..4}; do python3 /tmp/asker.py & done; wait; } # one at a time: each answer is an interrupt
export -f packets
spread 4 5
job irq-control - bash -c packets
spread 0 1
job irq-remote irq.remote_numa bash -c packets
# Queues that were never used do not count.
iperf3 --client 10.99.0.1 --reverse --parallel 16 --time 5 >/dev/null
spread 4
job irq-one-cpu irq.balance_service_off bash -c packets
spread 4 5
grep virtio /proc/interrupts

if modprobe acpi_cpufreq; then
  governors=/sys/devices/system/cpu/cpufreq/policy*/scaling_governor
  modprobe -a cpufreq_powersave cpufreq_performance 2>/dev/null
  echo performance | tee $governors >/dev/null
  say "$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver) with $(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies)"
  job clocks-control - sleep 35
  echo powersave | tee $governors >/dev/null
  job clocks-low cpu.governor_powersave sleep 35
  echo performance | tee $governors >/dev/null

  # A limit of the clocks that something lowers and lifts again, beside steady work.
  most=($(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_available_frequencies))
  ceiling() { echo $1 | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq >/dev/null; }
  swing() { # swing LOW HIGH TIMES: for 3 s each
    for ((i = 0; i < $3; i++)); do
      ceiling $1
      sleep 1.5
      ceiling $2
      sleep 1.5
    done
  }
  restless() { # restless LOW HIGH: for 24 of 65 s
    stress-ng --cpu 1 --cpu-method int64 --timeout 65 --quiet &
    sleep $(drawn 14 24)
    fault begins
    swing $1 $2 8
    fault ends
    wait
  }
  export -f ceiling swing restless
  export REVEAL_INTERVAL=1s # with a busy cpu, too
  job clocks-steady - bash -c "restless ${most[0]} ${most[0]}"
  job clocks-restless cpu.freq_oscillation bash -c "restless ${most[-1]} ${most[0]}"

  # A board that is too hot for the cpus' highest clock, and one that is just not. Before Linux 6.3, cooling devices count
  # their states when they come, and the cpus came before their clocks could be set.
  for cpu in /sys/bus/cpu/drivers/processor/cpu*; do
    echo ${cpu##*/} >${cpu%/*}/unbind
    echo ${cpu##*/} >${cpu%/*}/bind
  done
  degrees() { printf "\\x$(printf %x $1)" | dd of=/dev/port bs=1 seek=$((0xb3)) status=none; }
  heat() { # heat DEGREES: for 24 of 65 s
    degrees 45
    stress-ng --cpu 1 --cpu-method int64 --timeout 65 --quiet &
    sleep $(drawn 14 24)
    degrees $1
    fault begins
    sleep 24
    echo "$(cat /sys/class/thermal/thermal_zone0/temp) mC, states $(cat /sys/class/thermal/cooling_device*/cur_state | xargs)"
    degrees 45
    fault ends
    wait
  }
  export -f degrees heat
  job heat-control - bash -c 'heat 80'
  job heat cpu.thermal_throttle bash -c 'heat 95'
  grep states heat-control.log heat.log

  # Work that reads a little again and again, from a disk that serves one request at a time: while others fill the disk, it
  # waits and computes in turn, and the clock follows. The scheduler has room for all: else a process waits for one of the
  # disk's tags before it has a request, and the disk's counters show no longer times (node.noisy_neighbour is first then).
  echo schedutil | tee $governors >/dev/null
  if modprobe null_blk queue_mode=2 irqmode=2 completion_nsec=3000000 hw_queue_depth=1 submit_queues=1 nr_devices=1; then
    queue=/sys/block/nullb0/queue
    echo mq-deadline >$queue/scheduler && echo 128 >$queue/nr_requests && echo 2 >$queue/nomerges
    say "nullb0 with $(cat $queue/scheduler), $(cat $queue/nr_requests) requests, merges $(cat $queue/nomerges)"
    cat >/tmp/reader.py <<'EOP'
import mmap, os, sys, threading, time
disk, end = os.open("/dev/nullb0", os.O_RDONLY | os.O_DIRECT), time.monotonic() + float(sys.argv[2])
def read(number, pause):
    block = mmap.mmap(-1, 4096)
    while time.monotonic() < end:
        for place in range(4):
            os.preadv(disk, [block], 4096 * (8 * number + 2 * place))
        work = time.monotonic() + pause
        while time.monotonic() < work:
            pass
for number in range(1, int(sys.argv[1])):
    threading.Thread(target=read, args=[number, 0]).start()
read(0, 0 if int(sys.argv[1]) > 1 else 0.9)
EOP
    chain chain-reads-control - - taskset -c 2 python3 /tmp/reader.py 1 65
    {
      export JOB_NAME=chain-reads
      ! chosen $JOB_NAME || { sleep $(drawn 18 28) && fault begins && taskset -c 6 python3 /tmp/reader.py 40 24 && fault ends; }
    } &
    others=$!
    chain chain-reads io.local_disk_saturated "cpu clocks that changed with the waits for the disk" \
      taskset -c 2 python3 /tmp/reader.py 1 65
    wait $others
    rmmod null_blk
  fi
  echo performance | tee $governors >/dev/null

  # Packets that interrupt the cpus of their senders, and then, by packet steering, the job's cpu, where one may wait. The
  # clock of an emulated cpu does not depend on them: from 2 s later on, its limit goes up and down, as in clocks-restless.
  cat >/tmp/sender.py <<'EOP'
import socket, sys, time
size, rate = int(sys.argv[1]), float(sys.argv[2])
sink, line = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
sink.bind(("127.0.0.1", 0))
then = time.monotonic()
while True:
    line.sendto(bytes(size), sink.getsockname())
    then += 1 / rate
    time.sleep(max(0, then - time.monotonic()))
EOP
  steered() { # steered CPUS LOW HIGH: a mask, for 24 of 65 s; with no cpu, only the clock is disturbed
    stress-ng --cpu 1 --cpu-method int64 --timeout 65 --quiet &
    sleep $(drawn 14 24)
    echo $1 >/sys/class/net/lo/queues/rx-0/rps_cpus
    [ $1 = 0 ] || fault begins
    sleep 2
    [ $1 != 0 ] || fault begins
    swing $2 $3 7
    sleep 1
    echo 0 >/sys/class/net/lo/queues/rx-0/rps_cpus
    fault ends
    wait $!
    awk '{print "packets of cpu" NR - 1 ": " $1 ", dropped " $2}' /proc/net/softnet_stat
  }
  export -f steered
  backlog=$(cat /proc/sys/net/core/netdev_max_backlog)
  ip link set lo mtu 1500
  echo 1 >/proc/sys/net/core/netdev_max_backlog
  taskset -c 4 python3 /tmp/sender.py 2500 1000 & # two fragments each: there is room for them
  senders=$!
  taskset -c 5 python3 /tmp/sender.py 60000 40 & # 41 at once
  senders+=" $!"
  job chain-clock cpu.freq_oscillation taskset -c 2 bash -c "steered 0 ${most[-1]} ${most[0]}"
  chain chain-interrupts-control irq.softirq_saturation - taskset -c 2 bash -c "steered 4 ${most[0]} ${most[0]}"
  chain chain-interrupts irq.softirq_saturation "cpu clocks that changed with the interrupts" \
    taskset -c 2 bash -c "steered 4 ${most[-1]} ${most[0]}"
  kill $senders
  wait $senders 2>/dev/null
  echo $backlog >/proc/sys/net/core/netdev_max_backlog
  ip link set lo mtu 65536
  export REVEAL_INTERVAL=250ms
fi

slow=$(tr ' ' '\n' <"${clock/current/available}" | grep -E 'hpet|acpi_pm' | head -n 1)
echo $slow >$clock
job clock cpu.clocksource_not_tsc sleep 35
echo tsc >$clock

# Two threads of one core beside an idle core.
two_threads() { taskset -c 0 bash -c busy & taskset -c $1 bash -c busy; wait; }
export -f two_threads
job smt-control - bash -c 'two_threads 2'
job smt-shared cpu.smt_shared bash -c 'two_threads 1'
