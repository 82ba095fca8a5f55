#!/usr/bin/env bash
# Counting calls on an older kernel: boots an emulated node with Debian 12's Linux 6.1, which has no link for many
# places, so that each function is attached by perf events of its own. A program calls doubles of NCCL and CUDA under
# reveal-run --stack; stack_judge.py holds its trace against the number of calls, bytes and errors that the program
# made. Beside another program, collectors are ended by SIGTERM and by SIGKILL: its code must be free of breakpoints.
#
#   stack.sh PACKAGES [DIR]      needs root: see slurm_systemd.sh, of whose kind this is; DIR may be that of node.sh
#
#   apt-get install qemu-system-x86 mmdebstrap e2fsprogs g++ python3-h5py
#
# Exit status: 0 all as expected, 1 not, 77 something is missing here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/guest.sh"

[ $# -ge 1 ] || { sed -n '7s/^# *//p' "$0" >&2 && exit 2; }
command -v g++ >/dev/null || skip "g++ is not installed"
/usr/bin/python3 -c 'import h5py' 2>/dev/null || skip "python3-h5py is not installed"
guest_begin "$@"
guest_root "${node_packages[@]}"

# As tests/CMakeLists.txt compiles it: functions begin with an instruction that need not be single-stepped.
libraries=$root/usr/local/lib/stack
install -d "$libraries"
g++ -std=c++20 -O0 -fcf-protection=none -shared -fPIC -o "$libraries/libnccl.so.2" "$here/../doubles/stack_double.cpp"
cp "$libraries/libnccl.so.2" "$libraries/libcudart.so.13"
g++ -std=c++20 -O2 -Wall -Wextra -o "$root/usr/bin/stack_calls" "$here/stack_calls.cpp"
install_scenario "$here/stack_scenario.sh"

status=0
guest_boot 900 "init=/usr/local/sbin/scenario tsc=reliable clocksource=tsc" -smp 2 -m 1536 -nic none || status=$?
[ "$(cat "$dir/result/status" 2>/dev/null)" = 0 ] || status=1
/usr/bin/python3 "$here/stack_judge.py" "$dir/result" || status=1
say "$([ $status = 0 ] && echo "every call was counted, and nothing stayed attached" || echo FAILED)"
[ $status = 0 ]
