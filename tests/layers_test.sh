#!/usr/bin/env bash
# The folder tree is the architecture: allowed includes, entries at the top, and names of files.
set -u
cd "${REVEAL_SOURCE:-$(dirname "$0")/..}" || exit 1
failures=0
complain() { echo "layers: $*"; failures=$((failures + 1)); }

# forbid FOLDER PATTERN WHY [EXCEPT]: no source of FOLDER may include a header that matches PATTERN.
forbid() {
  local hits
  hits=$(grep -rnE "^#include [<\"]($2)" "$1" --include='*.h' --include='*.cpp' --include='*.c' 2>/dev/null | grep -vE "${4:-^$}")
  [ -z "$hits" ] || complain "$3: $hits"
}
# The same for the files of one folder, without those below it.
forbid_in_folder() {
  local hits
  hits=$(grep -nE "^#include \"($2)" "$1"/*.h "$1"/*.cpp 2>/dev/null)
  [ -z "$hits" ] || complain "$3: $hits"
}
forbid hdf5schema 'core/|postproc/|wrapper/|spank/' "hdf5schema is below everything"
forbid core 'postproc/|wrapper/|spank/' "core measures, it never explains"
forbid postproc 'core/|wrapper/|spank/' "postproc is independent of probes"
forbid wrapper 'core/|postproc/|spank/' "the wrapper only starts and stops"
forbid spank 'core/|postproc/|wrapper/|hdf5schema/' "the plugin links libc only"
forbid hdf5schema/basics 'hdf5schema/[a-z_]+\.h|H5|hdf5\.h|Eigen|CLI|spdlog|nlohmann' "basics are std only"
for folder in core postproc wrapper; do
  forbid $folder 'H5|hdf5\.h' "HDF5 appears in hdf5schema/*.cpp only"
done
forbid hdf5schema 'H5|hdf5\.h' "HDF5 appears in .cpp files only" '\.cpp:'
for folder in core wrapper hdf5schema; do
  forbid $folder 'Eigen/' "Eigen belongs to postproc"
done
for folder in core postproc wrapper hdf5schema; do
  forbid $folder 'CLI/' "CLI11 appears in programs only" '_main\.cpp:|^postproc/commands/'
done

# The layers of core, lowest first: none includes a higher one, except for three headers that `job` includes.
core_layers=(kernel_text job sampler intervention snapshot pmu gpu stack python probes broker)
for ((i = 0; i < ${#core_layers[@]}; ++i)); do
  above=$(IFS='|'; echo "${core_layers[*]:i+1}")
  [ -d "core/${core_layers[i]}" ] || complain "no folder core/${core_layers[i]}"
  [ -z "$above" ] || forbid "core/${core_layers[i]}" "core/($above)/" "core/${core_layers[i]} includes a higher layer" \
    '^core/job/.*"core/sampler/(host|lasting_instances|trace_sink)\.h"'
done
for folder in core/*/; do
  [[ " ${core_layers[*]} " == *" $(basename "$folder") "* ]] || complain "$folder has no layer"
done

# The layers of postproc, lowest first: none includes a higher one.
layers=(numerics words json parquet telemetry features detect detect/scan detect/windows detect/paper detect/pipelines diagnose
  diagnose/rules peers peers/rules history report ledger analysis compare live score drill mail deliver)
for ((i = 0; i < ${#layers[@]}; ++i)); do
  above=$(IFS='|'; echo "${layers[*]:i+1}")
  [ -d "postproc/${layers[i]}" ] || complain "no folder postproc/${layers[i]}"
  [ -z "$above" ] || forbid_in_folder "postproc/${layers[i]}" "postproc/($above)/[a-z_]+\\.h" "postproc/${layers[i]} includes a higher layer"
done
for folder in postproc/*/ postproc/detect/*/ postproc/diagnose/*/ postproc/peers/*/; do
  folder=${folder#postproc/} folder=${folder%/}
  [[ " ${layers[*]} commands " == *" $folder "* ]] || complain "postproc/$folder has no layer"
done
forbid postproc 'postproc/commands/' "subcommands are above everything" '^postproc/(commands/|reveal_main\.cpp:)'
forbid postproc 'postproc/detect/paper/' "the default pipeline does without the paper's detectors" \
  '^postproc/(detect/paper/|detect/pipelines/pipelines\.cpp:|commands/prune\.cpp:|analysis/annotated_windows\.cpp:)'
forbid . 'slurm/slurm\.h' "<slurm/slurm.h> belongs to one file" '^\./(postproc/deliver/slurm_controller\.cpp|build)'

# A finding has the name of a row of the table, so that `reveal rules` lists it and a site can configure it.
nameless=$(grep -rnE '(finding|Finding)[a-z_]*\.(id|title) = "' postproc --include='*.cpp' --include='*.h')
[ -z "$nameless" ] || complain "a finding that is no row of the rule table: $nameless"

painted=$(grep -rnE '(\\x1b|\\033)\[[0-9;{}]*m' core hdf5schema postproc wrapper --include='*.cpp' --include='*.h' |
  grep -v '^postproc/words/ink\.cpp:')
[ -z "$painted" ] || complain "colours are those of postproc/words/ink.h: $painted"

# A plain dump() throws on a name that is not UTF-8. Three files print ASCII only.
dumped=$(grep -rnE '\.dump\(' postproc --include='*.cpp' --include='*.h' |
  grep -vE '^postproc/(json/|report/html_report\.cpp|analysis/(trace_events|annotated_windows)\.cpp:)')
[ -z "$dumped" ] || complain "JSON becomes text by json_text() of postproc/json/json_fields.h: $dumped"

# Probes, rules and tests repeat each other's names: each has a namespace, so that a dozen can be compiled as one file.
for folder in core/probes:probe postproc/diagnose/rules:rule postproc/peers/rules:rule tests/unit:tests; do
  while read -r file; do
    complain "namespace reveal {, not reveal::${folder#*:}::$(basename "$file" .cpp) {: $file"
  done < <(grep -Plzr --include='*.cpp' '\n\}  // namespace\n\}  // namespace reveal\n' ${folder%:*})
done

while read -r folder; do
  [ -d "$folder" ] || complain "tests/unit/$folder tests no folder of that name"
done < <(cd tests/unit && find . -mindepth 1 -type d | cut -c3-)

allowed='CMakeLists\.txt|spank|wrapper|core|postproc|hdf5schema|site-config|tests|bench|README\.md|LICENSE|CMakePresets\.json|CONTRIBUTING\.md|CHANGELOG\.md|\..*'
extra=$(git ls-files 2>/dev/null | cut -d/ -f1 | sort -u | grep -vxE "$allowed")
[ -z "$extra" ] || complain "not at the top level: $extra"
vague=$(git ls-files 2>/dev/null | grep -E '(^|/)[a-z_]*(util|helper|common|manager)[a-z_]*\.[a-z]+$')
[ -z "$vague" ] || complain "a name without a meaning: $vague"
# A comment is a noun phrase or a sentence: "The result of ...", not "What ... returns"; "The callers", not "Who calls".
riddles=$(grep -rnE '(^|[^:"])///?<? ?(What|Who|Whoever|Which|Nobody|Those|Of)\b' core hdf5schema postproc spank wrapper \
  --include='*.h' --include='*.cpp' --include='*.c')
[ -z "$riddles" ] || complain "a comment begins with a pronoun or with 'Of'; name the thing: $riddles"
fragments=$(grep -rnE '^\s*///? ?(Of|Which) [a-zA-Z]' bench tests --include='*.h' --include='*.cpp' --include='*.c')
[ -z "$fragments" ] || complain "a comment without a verb; name the thing or its result: $fragments"
trailing=$(grep -rnE '^\s*[^/ ].*// of ' bench core hdf5schema postproc spank tests wrapper --include='*.h' \
  --include='*.cpp' --include='*.c')
[ -z "$trailing" ] || complain "a trailing comment begins with 'of'; name the thing: $trailing"

# A file that a comment names exists: by its path from the top, or by its name alone.
comments=$(grep -rhoE '//.*' bench core hdf5schema postproc spank tests wrapper --include='*.h' --include='*.cpp' \
  --include='*.c')
while read -r file; do
  [ -e "$file" ] || complain "a comment names $file, which does not exist"
done < <(grep -oE '[ ("](bench|core|hdf5schema|postproc|site-config|spank|tests|wrapper)/[a-z0-9_/-]+\.[a-z]+' \
  <<<"$comments" | cut -c2- | sort -u)
files=$(git ls-files 2>/dev/null | sed 's,.*/,,')
while read -r file; do
  [ -z "$files" ] || grep -qx "$file" <<<"$files" || complain "a comment names $file, which does not exist"
done < <(grep -oE '[ ("][a-z0-9_]+\.(h|cpp)\b' <<<"$comments" | cut -c2- | sort -u)

# Likewise in documents, also by its path from the document's folder. CONTRIBUTING adds the probe `entropy`.
while read -r document; do
  while read -r file; do
    [ -e "$file" ] || [ -e "$(dirname "$document")/$file" ] || grep -qx "$file" <<<"$files" ||
      complain "$document names $file, which does not exist"
  done < <({ grep -oE '`[a-z0-9_/-]+\.(c|cpp|h|py|sh)`' "$document" | tr -d '`'
    grep -oE '\]\([^)#:]+[)#]' "$document" | tr -d ']()#'; } | grep -vE '(^|/)entropy(_test)?\.cpp$' | sort -u)
done < <(git ls-files '*.md' 2>/dev/null)

if [ $failures -gt 0 ]; then exit 1; fi
echo "layers: clean"
