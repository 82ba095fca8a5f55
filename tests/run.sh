#!/usr/bin/env bash
# Installs what the tests need, builds with warnings as errors, runs every test.
# Usage: bash tests/run.sh            all of it, as continuous integration runs it
#        bash tests/run.sh quick      build and ctest only
#        bash tests/run.sh --lab [OPTION...]   build, then every fault of tests/lab on real jobs, once, and the table of
#                                     what was found (more than an hour, as root, on a quiet machine); OPTIONs are those
#                                     of bench/detection/lab.py, for example --scenarios loss1,stop --runs 5
#                                     Then the guests, if their image is there, for hours more (tests/guest/all.sh;
#                                     REVEAL_GUESTS names its directory)
# REVEAL_BUILD_ROOT moves the build directories (default build/).
set -euo pipefail
cd "$(dirname "$0")/.."
. site-config/packages.sh
root="${REVEAL_BUILD_ROOT:-build}"
say() { printf '\n==> [%4ds] %s\n' "$SECONDS" "$*"; }
SECONDS=0
# Objects are found again in any clone of the repository, not only at the path where they were compiled.
export CCACHE_DIR="${CCACHE_DIR:-${HOME:-}/.cache/ccache}" CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1
export CCACHE_DEPEND=1  # the compiler tells the dependencies, so ccache does not preprocess what it has to compile
once="-DREVEAL_UNITY=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=40"  # compiled once: most of the time goes into shared headers

purposes=(build test)
[ "${1:-}" != --lab ] || purposes+=(lab)
[ "${1:-}" != --lab ] || dpkg-query -W -f='${Provides}\n' | grep mail-transport-agent >/dev/null || purposes+=(mta)
mapfile -t missing < <(missing_packages site-config/packages.txt "${purposes[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  install_packages "${missing[@]}" || { echo "tests: missing packages: apt-get install ${missing[*]}" >&2; exit 1; }
fi

npm_packages() {  # into build/npm; without npm or its registry, tests that need them are skipped and say so
  local folder="$root/npm"
  ! cmp -s tests/package-lock.json "$folder/installed.json" || return 0
  command -v npm >/dev/null || { echo "tests: npm is missing, so some tests will be skipped"; return 0; }
  say "installing the packages of tests/package.json"
  mkdir -p "$folder"
  cp tests/.npmrc tests/package.json tests/package-lock.json "$folder"
  (cd "$folder" && exec timeout 180 npm ci --silent --fetch-retries=1 --fetch-timeout=30000 </dev/null) &
  local install=$!
  trap 'kill "$install" 2>/dev/null; exit' TERM
  if wait "$install"; then
    cp tests/package-lock.json "$folder/installed.json"
  else
    echo "tests: npm could not install them, so some tests will be skipped"
    rm -rf "$folder"
  fi
}
npm_packages &  # beside the first build
npm=$!
trap 'kill "$npm" 2>/dev/null || true' EXIT  # a build that fails leaves it to nobody

configure() {  # configure NAME CMAKE-OPTION...
  local name="$1"
  shift
  cmake -G Ninja -S . -B "$root/$name" -DREVEAL_WERROR=ON "$@" >"$root/$name.log" 2>&1 || { cat "$root/$name.log"; return 1; }
}
mkdir -p "$root"
failed=0 passed=0 skipped=0 bad=0
lines() { grep -cE "^ *[0-9]+/[0-9]+ Test .*($2)" "$1" || true; }  # lines LOG RESULTS: each test has a line of its own
run_ctest() {  # run_ctest NAME CTEST-OPTION...; skipped tests print the reason. False if a test failed.
  local name="$1" log="$root/$1.ctest" status=0
  shift
  ctest --test-dir "$root/$name" --output-on-failure --no-tests=error "$@" 2>&1 | tee "$log" || status=1
  passed=$((passed + $(lines "$log" ' Passed ')))
  skipped=$((skipped + $(lines "$log" '[*]{3}Skipped')))
  failed=$((failed + $(lines "$log" '[*]{3}(Failed|Timeout|Exception|Not Run)')))
  return $status
}
once_more() {  # once_more NAME: load decides no test
  local log="$root/$1.again" again
  say "the tests that failed beside others, once more and alone"
  ctest --test-dir "$root/$1" --output-on-failure --rerun-failed 2>&1 | tee "$log" || bad=1
  again=$(lines "$log" ' Passed ')
  passed=$((passed + again)) failed=$((failed - again))
}
step() {  # step NAME COMMAND...: one more check that passes or fails as a whole
  local name="$1"
  shift
  say "$name"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $name"; fi
}

say "g++: build, warnings are errors"
# Little debug information: enough for a back trace, and a third less to wait for.
configure gcc -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG" \
  -DCMAKE_CXX_COMPILER=g++ -DCMAKE_C_COMPILER=gcc $once
ninja -C "$root/gcc"
wait "$npm"
trap - EXIT
if [ "${1:-}" = --lab ]; then
  say "laboratory: itself"
  REVEAL_BUILD="$(realpath "$root/gcc")" bash tests/lab/lab_test.sh || exit
  part() {  # part NAME COMMAND...: like step, but 77 is "skipped, and it said why"
    local status=0
    say "laboratory: $1"
    "${@:2}" || status=$?
    case $status in 0) passed=$((passed + 1)) ;; 77) skipped=$((skipped + 1)) ;; *) failed=$((failed + 1)) && echo "FAILED: $1" ;; esac
  }
  now=$(date -u +%Y%m%d-%H%M%S)
  part "the peer that segments were lost to" tests/lab/peers.py --build "$root/gcc" --out "$root/peers-$now"
  part "every fault" bench/detection/lab.py --build "$root/gcc" --out "$root/lab-$now" --runs 1 --seed $RANDOM "${@:2}"
  part "rules of GPUs, by a double" env REVEAL_BUILD="$(realpath "$root/gcc")" /usr/bin/python3 tests/lab/gpu_rules.py
  part "guests" tests/guest/all.sh ${REVEAL_GUESTS:+"$REVEAL_GUESTS"}
  echo "laboratory: $passed parts passed, $failed failed, $skipped skipped"
  exit $((failed > 0))
fi
if [ "${1:-}" = quick ]; then
  say "g++: every test"
  run_ctest gcc -j "$(nproc)" || bad=1
else
  sources() { git ls-files '*.h' '*.cpp' '*.c'; }
  format_check() { sources | xargs -P "$(nproc)" -n 100 clang-format --dry-run -Werror; }
  step "clang-format" format_check

  tidy() {
    configure tidy -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG= -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
      -DREVEAL_TESTS=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON $once || return
    ninja -C "$root/tidy" generated/postproc/report/assets.cpp >/dev/null || return
    sed -nE 's/^ *"file": "(.*)",?$/\1/p' "$root/tidy/compile_commands.json" | sort -u |
      xargs -P "$(nproc)" -n 1 clang-tidy -p "$root/tidy" --config-file=.clang-tidy --quiet 2>"$root/tidy.err" || { cat "$root/tidy.err"; return 1; }
  }
  sanitize() {
    configure sanitize -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="-O0 -g1" -DCMAKE_CXX_COMPILER=clang++ \
      -DCMAKE_C_COMPILER=clang -DREVEAL_SANITIZE=address,undefined $once || return
    ninja -j "$(nproc)" -C "$root/sanitize" test_core test_hdf5schema test_postproc test_wrapper fuzz_replay
  }

  say "g++: the test that needs an idle machine"
  run_ctest gcc -L alone || once_more gcc
  # The other tests wait more than they compute.
  say "g++: every other test; beside them the build with sanitizers and clang-tidy, at low priority"
  beside() {  # beside NAME: its output in NAME.out, its exit status in NAME.rc
    renice -n 19 -p "$BASHPID" >/dev/null
    local status=0
    "$1" >"$root/$1.out" 2>&1 || status=$?
    echo $status >"$root/$1.rc"
  }
  result_of() { cat "$root/$1.out"; [ "$(cat "$root/$1.rc")" = 0 ]; }
  rm -f "$root"/{sanitize,tidy}.rc
  { beside sanitize; beside tidy; } </dev/null &
  again=()
  run_ctest gcc -LE alone -j $(($(nproc) + 1)) || again+=(gcc)
  say "the build with sanitizers: the rest of it"
  while [ ! -e "$root/sanitize.rc" ] && kill -0 $! 2>/dev/null; do sleep 1; done
  step "clang++: build with address and undefined behaviour sanitizers, warnings are errors" result_of sanitize

  say "clang++: unit tests under the sanitizers"
  export LSAN_OPTIONS="suppressions=$PWD/tests/leaks.supp:print_suppressions=0"
  run_ctest sanitize -L unit -j $(($(nproc) + 1)) || again+=(sanitize)
  say "clang-tidy: the rest of it"
  wait
  step "clang-tidy" result_of tidy
  for name in ${again[@]+"${again[@]}"}; do once_more "$name"; done
fi

say "done"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $bad -eq 0 ]
