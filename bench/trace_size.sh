#!/usr/bin/env bash
# Bytes of a closed trace and memory of its collector, over the mixed load: rounds of two and a half minutes of
#   30 s idle, 60 s data-parallel training over TCP with checkpoints, 20 s buffered writing at 50 MB/s,
#   20 s reading many small files, 20 s of an outsider on half a cpu,
# ten minutes of it unless told otherwise, recorded at 10 Hz with all default probes. It needs a quiet machine.
# Usage: REVEAL_BUILD=build/gcc bench/trace_size.sh [MINUTES [DIRECTORY]]
set -eu
minutes="${1:-10}" directory="${2:-$(mktemp -d)}"
bin="${REVEAL_BUILD:-build}/bin"
trace="$directory/mixed.h5"
mkdir -p "$directory/scratch"

training() { "$bin/training_job" --ranks 2 --seconds "$1" --dir "$directory/scratch" > /dev/null; }
writing() { "$bin/disturb" --kind flood --rate 50 --dir "$directory/scratch" --seconds "$1" > /dev/null; }
reading() { timeout "$1" sh -c 'while :; do find /usr/include /usr/share/doc -type f -exec cat {} + ; done' > /dev/null || true; }
outsider() { "$bin/disturb" --kind outsider --share 50 --cpu any --seconds "$1" > /dev/null; }
mixed_load() {
  local end=$((SECONDS + 60 * minutes))
  while [ $SECONDS -lt $end ]; do
    sleep 30
    training 60
    writing 20
    reading 20
    outsider 20
  done
}

mixed_load &
load=$!
"$bin/reveal-collect" --output "$trace" --job "pid:$load" --duration "${minutes}min" --verbose &
collector=$!
sleep 60
echo "memory of the collector after 60 s (kB):"
grep -E '^(Rss|Pss|Shared_Clean|Private_Clean|Private_Dirty|Anonymous):' "/proc/$collector/smaps_rollup"
wait $collector
kill $load 2> /dev/null || true
wait $load 2> /dev/null || true
"$bin/trace_size" "$trace"
rm -rf "$directory/scratch"
echo "the trace: $trace"
