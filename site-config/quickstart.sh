#!/usr/bin/env bash
# From a fresh clone to a true report: installs what is missing, builds, profiles a job, prints what slowed it down.
# Usage: bash site-config/quickstart.sh [--yes]      (--yes: install missing packages without asking)
set -euo pipefail
cd "$(dirname "$0")/.."
. site-config/packages.sh

yes=no
case "${1:-}" in
  --yes | -y) yes=yes ;;
  "") ;;
  --help | -h) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
  *) echo "quickstart: unknown option \"$1\"; did you mean --yes?" >&2; exit 2 ;;
esac

say() { printf '\n==> [%3ds] %s\n' "$SECONDS" "$*"; }
SECONDS=0

say "1/4 Debian packages"
mapfile -t missing < <(missing_packages site-config/packages.txt build)
if [ ${#missing[@]} -eq 0 ]; then
  echo "nothing missing"
else
  echo "missing: ${missing[*]}"
  if [ $yes = no ]; then
    if [ ! -t 0 ]; then
      echo "quickstart: run again with --yes to install them, or: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    read -r -p "Install them now? [Y/n] " answer
    case "$answer" in [nN]*) exit 1 ;; esac
  fi
  install_packages "${missing[@]}" || {
    echo "quickstart: cannot install packages; ask your administrator for: apt-get install ${missing[*]}" >&2
    exit 1
  }
fi

build=build/quickstart
say "2/4 Building into $build"
# Soon rather than fast: -O1 takes two thirds of the time of -O3, and the collector little more of a cpu.
cmake -G Ninja -S . -B $build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O1 -DNDEBUG" -DCMAKE_EXE_LINKER_FLAGS=-s \
  -DREVEAL_UNITY=ON -DREVEAL_TESTS=OFF -DREVEAL_WORKLOAD=ON >/dev/null
ninja -C $build reveal reveal-run reveal-collect training_job disturb

job=build/quickstart-job
rm -rf "$job" "$job"-*
say "3/4 Profiling a job: two ranks train for 60 s; at a random time another process takes half of one cpu"
echo "reveal-run --output $job -- training_job --ranks 2 --seconds 60"
$build/bin/training_job --ranks 2 --seconds 60 --dir "$job-data" --log "$job-truth.jsonl" --disturb outsider:50 \
  --launcher "$build/bin/reveal-run --output $job --no-report --"
rm -rf "$job-data"

say "4/4 The report"
$build/bin/reveal report $job
echo
echo "Also: $job/report.html (open it in a browser), $job/report.json"
echo "Actual disturbance, from its own log: $(cat "$job-truth.jsonl.disturb" 2>/dev/null || echo unknown)"
echo "Done in $SECONDS s. Your own job: $build/bin/reveal-run -- COMMAND"
