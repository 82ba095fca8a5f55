#!/usr/bin/env bash
# Names what a contributor owes: a probe, a rule, a detector or a subcommand without a test.
set -u
cd "${REVEAL_SOURCE:-$(dirname "$0")/..}" || exit 1
owed=0
# owe KEY FOLDER TESTS...: every KEY = "NAME" in FOLDER is named in one of TESTS.
owe() {
  local key="$1" folder="$2" name
  shift 2
  for name in $(grep -rhoE "$key = \"[a-z0-9_.]+\"" "$folder" | cut -d'"' -f2 | sort -u); do
    grep -rqE "[\"' ]$name[\"' ]" "$@" || { echo "owed: no test in $* names $name of $folder"; owed=1; }
  done
}
owe '\.name' core/probes tests/unit/core
for probe in $(grep -lE "RegisteredProbe" core/probes/*.cpp); do
  test="tests/unit/core/probes/$(basename "${probe%.cpp}")_test.cpp"
  [ -f "$test" ] || { echo "owed: $test"; owed=1; }
done
# A detector is named by its enumerator, or as reports print it.
episode=postproc/detect/episode.h
methods=($(sed -n '/^enum class Method /,/^};/p' $episode | grep -oE '^  [a-z_]+'))
mapfile -t labels < <(sed -n '/ kMethodNames\[\]/,/;$/p' $episode | grep -oE '"[^"]+"')
[ ${#methods[@]} -gt 0 ] && [ ${#methods[@]} -eq ${#labels[@]} ] || { echo "owed: names of detectors in $episode"; owed=1; }
for i in "${!methods[@]}"; do
  grep -rqE "Method::${methods[i]}\b|${labels[i]}" tests/unit/postproc/detect ||
    { echo "owed: no test in tests/unit/postproc/detect names the detector ${methods[i]}"; owed=1; }
done
owe '\.id' postproc/diagnose/rules tests/unit/postproc
owe '\.id' postproc/peers tests/unit/postproc
owe '\.id' postproc/history tests/unit/postproc
owe '\.name' postproc/commands tests/integration tests/unit/postproc
for probe in $(grep -L "^// https://" $(grep -lE "RegisteredProbe" core/probes/*.cpp) | grep -v site_metrics); do
  echo "owed: $probe links no description of what it reads"
  owed=1
done
[ $owed -eq 0 ] && echo "owed: nothing"
exit $owed
