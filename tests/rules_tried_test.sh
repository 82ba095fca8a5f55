#!/usr/bin/env bash
# Names the rules that no test of their own saw report a fault, or saw stay silent, and those that do not say by what
# they are proven. Their tests are run for it: what they assert counts, not what they are called.
set -u
cd "${REVEAL_SOURCE:-$(dirname "$0")/..}" || exit 1
bin="${REVEAL_BUILD:?}/bin"
[ -x "$bin/test_postproc" ] && [ -x "$bin/reveal" ] || { echo "skipped: not built"; exit 77; }
tried=$(mktemp)
trap 'rm -f "$tried"' EXIT
owed=0
REVEAL_RULES_TRIED="$tried" "$bin/test_postproc" --gtest_brief=1 \
  --gtest_filter='Rule*:Peers.*:ConfigurationFindings.*:History.*' >/dev/null || { echo "owed: tests that pass"; owed=1; }
ids=$("$bin/reveal" rules --json | grep -oE '"id": "[a-z0-9_.]+"' | cut -d'"' -f4)
[ -n "$ids" ] || { echo "owed: a list of rules"; exit 1; }
for id in $ids; do
  for outcome in reported silent; do
    grep -qF "$id $outcome " "$tried" || { echo "owed: no test Rule*.* in which $id is $outcome"; owed=1; }
  done
done
# A rule that does not say so would claim the best proof there is.
for file in $(grep -rlE '\.id = "' postproc/diagnose/rules postproc/peers); do
  [ "$(grep -cE '\.id = "' "$file")" -eq "$(grep -cE '\.proof = Proof::' "$file")" ] ||
    { echo "owed: $file: .proof of each rule"; owed=1; }
done
[ $owed -eq 0 ] && echo "owed: nothing; $(wc -l < "$tried") outcomes of $(echo "$ids" | wc -l) rules"
exit $owed
