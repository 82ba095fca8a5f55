#!/usr/bin/env bash
# The life cycle under a real Slurm: every case of slurm/*.bats, each file on a cluster of its own, several files at
# the same time, because the cases wait more than they work. Prints the matrix of the cases at the end.
set -u
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "needs root: slurmd starts jobs as other users"
for program in munged slurmctld slurmd srun sbatch bats setpriv cc; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null || skip "$program is not installed"
done
id munge >/dev/null 2>&1 || skip "there is no user munge"
: "${REVEAL_BUILD:?the build folder}"
[ -n "${REVEAL_PLUGIN:-}" ] || ls "$REVEAL_BUILD"/{,lib/,spank/}spank_reveal.so 2>/dev/null | grep -q . ||
  skip "spank_reveal.so was not built: libslurm-dev is missing"

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export REVEAL_MATRIX=$results/matrix
unset "${!SLURM_@}" "${!SPANK_@}" REVEAL_CONFIG
# The longest first, and not all at once: ten clusters on two cpus run into Slurm's own time limits.
files=()
for name in time_limit kinds endings broken places prologless; do files+=("$here/slurm/$name.bats"); done
for file in "$here"/slurm/*.bats; do [[ " ${files[*]} " == *" $file "* ]] || files+=("$file"); done
last=$here/slurm/watch.bats # its detectors compute on both nodes, so it has the machine to itself
[ $# -eq 0 ] || files=("$here/slurm/$1.bats") # one file's name, for a developer
run_file() { # run_file FILE: its output in a file of its name
  local results_of
  results_of=$results/$(basename "$1" .bats)
  bats --tap --timing "$1" >"$results_of" 2>&1 </dev/null || touch "$results_of.failed"
}
at_once=$(($(nproc) * 2 + 1)) failed=0
for file in "${files[@]}"; do
  [ "$file" != "$last" ] || continue
  while [ "$(jobs -rp | wc -l)" -ge $at_once ]; do wait -n; done
  run_file "$file" &
done
wait
[[ " ${files[*]} " != *" $last "* ]] || run_file "$last"
for file in "${files[@]}"; do
  results_of=$results/$(basename "$file" .bats)
  echo "== $(basename "$file" .bats)"
  cat "$results_of"
  [ ! -e "$results_of.failed" ] || failed=1
done

echo
{
  echo "situation | exit status unchanged | collectors started | left over | report present | nodes drained"
  sort "$REVEAL_MATRIX" 2>/dev/null
} | awk -F ' [|] ' '
  { for (i = 1; i <= NF; i++) { cell[NR, i] = $i; if (length($i) > width[i]) width[i] = length($i) } columns = NF }
  END { for (r = 1; r <= NR; r++) { for (i = 1; i < columns; i++) printf "%-*s | ", width[i], cell[r, i]; print cell[r, columns] } }'
echo
echo "$SECONDS s"
if [ $failed != 0 ]; then
  echo # once more where a long log is read first: at its end
  for file in "$results"/*.failed; do sed -n '/^not ok/,/^ok/p' "${file%.failed}" | grep -v '^ok'; done
  exit 1
fi
echo "reveal keeps to its life cycle under $(slurmd -V)"
