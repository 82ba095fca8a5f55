#!/usr/bin/env bash
# The life cycle under a real Slurm: every case of slurm/*.bats, each file on a cluster of its own, all files at the same
# time, because the cases wait more than they work. Prints the matrix of the cases at the end.
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
[ -n "${REVEAL_PLUGIN:-}" ] || ls "$REVEAL_BUILD"/{,lib/,spank/}spank_reveal.so 2>/dev/null | grep -q . ||
  skip "spank_reveal.so was not built: libslurm-dev is missing"

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
export REVEAL_MATRIX=$results/matrix
unset "${!SLURM_@}" "${!SPANK_@}" REVEAL_CONFIG
files=("$here"/slurm/${1:-*}.bats) # one file's name, for a developer
pids=()
for file in "${files[@]}"; do
  bats --tap --timing "$file" >"$results/$(basename "$file" .bats)" 2>&1 </dev/null &
  pids+=($!)
done
failed=0 again=()
for i in "${!files[@]}"; do
  name=$(basename "${files[i]}" .bats)
  wait "${pids[i]}" || again+=("${files[i]}")
  echo "== $name"
  cat "$results/$name"
done
# Ten clusters at once on two cpus: Slurm's own time limits give way now and then. A file that fails alone, too, fails.
for file in "${again[@]}"; do
  echo "== $(basename "$file" .bats), once more and alone"
  bats --tap --timing "$file" </dev/null || failed=1
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
[ $failed = 0 ] || exit 1
echo "reveal keeps to its life cycle under $(slurmd -V)"
