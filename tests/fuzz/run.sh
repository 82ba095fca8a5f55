#!/usr/bin/env bash
# Fuzzes every target for a while with clang's libFuzzer, address and undefined behaviour sanitizers. Opt-in; the corpus,
# and with it every input that once went wrong, is replayed by ctest (fuzz_replay).
#
#   [RUNS=NUMBER] run.sh SECONDS [TARGET...]     builds into build/fuzz; new inputs go to build/fuzz/corpus, crashes
#                                               beside it; RUNS: executions of each target, unless SECONDS are over
#                                               before; 0 seconds are no limit
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: [RUNS=NUMBER] run.sh SECONDS [TARGET...]}
runs=${RUNS:--1} # no limit
[ "$seconds" != 0 ] || [ "$runs" -ge 0 ] || { echo "without an end: neither SECONDS nor RUNS" >&2 && exit 2; }
shift
build=build/fuzz
cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
  -DREVEAL_FUZZ=ON -DREVEAL_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
ninja -C $build fuzzer >/dev/null
[ $# -gt 0 ] || set -- $(ls tests/fuzz/corpus)
failed=0
for target in "$@"; do
  mkdir -p $build/corpus/$target
  log=$build/$target.log
  REVEAL_FUZZ_TARGET=$target LSAN_OPTIONS=suppressions=tests/leaks.supp $build/bin/fuzzer -max_total_time="$seconds" \
    -runs="$runs" -rss_limit_mb=3000 -timeout=20 -artifact_prefix=$build/$target- -print_final_stats=1 \
    $build/corpus/$target tests/fuzz/corpus/$target >$log 2>&1 || failed=1
  printf '%-14s %s executions, %s crashes\n' "$target" "$(sed -n 's/stat::number_of_executed_units: *//p' $log)" \
    "$(find $build -maxdepth 1 -name "$target-*" | wc -l)"
done
exit $failed
