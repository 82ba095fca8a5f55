#!/usr/bin/env bash
# The paper's case "huge pages on one node of several": three jobs as three nodes of one, of which one sees 512 reserved
# pages of 2 MiB and the others none (their view of /sys/kernel/mm/hugepages is a copy from before). Needs root; the
# control has the pages on no node. Prints the verdict and the findings of both.
#
#   bench/lab/hugepages.sh BUILD OUT [SECONDS]
set -euo pipefail
build=$(realpath "$1") out=$2 seconds=${3:-40}
pages=/sys/kernel/mm/hugepages
before=$(cat $pages/hugepages-2048kB/nr_hugepages)
trap 'echo "$before" >$pages/hugepages-2048kB/nr_hugepages' EXIT
mkdir -p "$out"
cp -r --no-preserve=all $pages "$out/none" 2>/dev/null || true  # "demote" can only be written

node() { # node DIR NAME VIEW
  unshare -m bash -c '[ -z "$3" ] || mount --bind "$3" '$pages'
    exec "$0/bin/reveal-run" --quiet --no-report --output "$1" --node "$2" -- \
      "$0/bin/training_job" --ranks 1 --width 256 --samples 2048 --seconds '"$seconds" "$build" "$1" "$2" "$3" >/dev/null
}
run() { # run NAME VIEW-OF-THE-THIRD
  node "$out/$1" n1 "$out/none" & node "$out/$1" n2 "$out/none" & node "$out/$1" n3 "$2" & wait
  "$build/bin/reveal" report "$out/$1" >"$out/$1.txt"
  echo "== $1"
  head -3 "$out/$1.txt"
  /usr/bin/python3 - "$out/$1/report.json" <<'EOP'
import json, sys
for one in json.load(open(sys.argv[1]))["findings"]:
    print(f"{one['severity']:9}{one['id']:30}{','.join(one['nodes']):10}{one['sentence']}")
EOP
}
run control "$out/none"
echo 512 >$pages/hugepages-2048kB/nr_hugepages
[ "$(cat $pages/hugepages-2048kB/nr_hugepages)" -gt 0 ] || { echo "skipped: no memory for huge pages"; exit 77; }
run deviant ""
