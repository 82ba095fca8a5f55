#!/usr/bin/env bash
# Counts cycles and instructions for real where the host has no PMU: an emulated arm64 machine (Neoverse N1) has one.
#   arm64_counters.sh KERNEL      KERNEL: an arm64 vmlinuz, for example from Debian's linux-image-cloud-arm64
# Needs qemu-system-arm, g++-aarch64-linux-gnu and cpio. With -icount the emulator retires one instruction per cycle of its
# clock, so the numbers are exact, and say nothing about speed. Exit status 0: counted; 77: something is missing here.
set -eu
kernel=${1:?usage: arm64_counters.sh KERNEL}
cd "$(dirname "$0")/../.."
for program in qemu-system-aarch64 aarch64-linux-gnu-g++ cpio; do
  command -v $program >/dev/null || { echo "arm64_counters: no $program here"; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/root" "$work/root/dev"
aarch64-linux-gnu-g++ -std=c++20 -O2 -static -Wall -Wextra -I. -o "$work/root/init" tests/guest/arm64_counters.cpp \
  core/pmu/{perf_event,counter_group,event_table,event_source,implemented_events,microarchitecture}.cpp core/kernel_text/{kernel_tree,recording}.cpp \
  hdf5schema/basics/{text,error}.cpp
(cd "$work/root" && find . | cpio --quiet -o -H newc) | gzip -1 >"$work/initrd"

timeout 170 qemu-system-aarch64 -M virt -cpu neoverse-n1 -smp 1 -m 512 -accel tcg -icount shift=0 -nographic -no-reboot \
  -kernel "$kernel" -initrd "$work/initrd" -append "console=ttyAMA0 panic=-1 quiet" </dev/null >"$work/console" 2>&1 || true
tr -d '\r' <"$work/console" | tail -n 60
grep -q '^result: ok' <(tr -d '\r' <"$work/console")
