#!/usr/bin/env bash
# The only program of the guest of node.sh: runs as its first process.
mine='cpu.smt_shared|cpu.clocksource_not_tsc|cpu.governor_powersave'
. /usr/local/sbin/first_process.sh
export REVEAL_INTERVAL=250ms # an emulated processor does not keep up with ten samples a second

clock=/sys/devices/system/clocksource/clocksource0/current_clocksource
say "$(nproc) cpus, threads of cpu0 $(cat /sys/devices/system/cpu/cpu0/topology/thread_siblings_list), clock $(cat $clock)"

busy() { stress-ng --cpu 1 --cpu-method int64 --timeout 40 --quiet; }
export -f busy

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

# Two threads of one core beside an idle core.
two_threads() { taskset -c 0 bash -c busy & taskset -c $1 bash -c busy; wait; }
export -f two_threads
job smt-control - bash -c 'two_threads 2'
job smt-shared cpu.smt_shared bash -c 'two_threads 1'
