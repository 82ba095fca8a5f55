#!/usr/bin/env bash
# The only program of the guest of node.sh: runs as its first process.
mine='cpu.smt_shared|cpu.clocksource_not_tsc|cpu.governor_powersave|cpu.smi_noise|irq.remote_numa'
mine+='|irq.imbalance|irq.softirq_saturation|net.nic_rx_drop|irq.balance_service_off'
mine+='|cpu.freq_oscillation|cpu.thermal_throttle'
. /usr/local/sbin/first_process.sh
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
job drop net.nic_rx_drop bash -c 'single 15; bursts 20; single 15'
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
  restless() { # restless LOW HIGH: for 24 of 65 s
    stress-ng --cpu 1 --cpu-method int64 --timeout 65 --quiet &
    sleep 18
    for _ in {1..8}; do
      ceiling $1
      sleep 1.5
      ceiling $2
      sleep 1.5
    done
    wait
  }
  export -f ceiling restless
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
    sleep 18
    degrees $1
    sleep 24
    echo "$(cat /sys/class/thermal/thermal_zone0/temp) mC, states $(cat /sys/class/thermal/cooling_device*/cur_state | xargs)"
    degrees 45
    wait
  }
  export -f degrees heat
  job heat-control - bash -c 'heat 80'
  job heat cpu.thermal_throttle bash -c 'heat 95'
  grep states heat-control.log heat.log
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
