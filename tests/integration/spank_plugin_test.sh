#!/bin/bash
# What the plugin shows to srun and slurmstepd, and what it wants from the system: the loader resolves both before any
# line of it runs. Needs no Slurm; the life cycle on a real cluster is tested in slurm/.
set -u
plugin=$REVEAL_BUILD/lib/spank_reveal.so
if [ ! -f "$plugin" ]; then
  echo "skipped: spank_reveal.so was not built (libslurm-dev is missing)"
  exit 77
fi
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

shown=$(nm -D --defined-only "$plugin" | awk '{ print $3 }' | LC_ALL=C sort | xargs)
allowed="plugin_name plugin_type plugin_version slurm_spank_exit slurm_spank_init slurm_spank_init_post_opt\
 slurm_spank_job_epilog slurm_spank_job_prolog slurm_spank_local_user_init spank_plugin_version"
[ "$shown" = "$allowed" ] || fail "exports '$shown' instead of '$allowed'"

# Slurm's own functions come from the program that loads it, everything else from libc.
wanted=$(nm -D --undefined-only "$plugin" | awk '$1 == "U" { print $2 }' | grep -v '@GLIBC_' | xargs)
for name in $wanted; do
  case $name in
    spank_* | slurm_info | slurm_spank_log) ;;
    *) fail "wants $name, which is neither libc's nor SPANK's" ;;
  esac
done
needed=$(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux' | xargs)
[ "$needed" = libc.so.6 ] || fail "needs '$needed' instead of libc.so.6"

# A stack or a heap that may be executed, or relocations in the text, would be noticed by a hardened slurmd.
! readelf -d "$plugin" | grep -q TEXTREL || fail "has relocations in its text"
readelf -lW "$plugin" | grep -q 'GNU_STACK.* RW ' || fail "asks for an executable stack"

stripped=$(mktemp)
strip -o "$stripped" "$plugin"
echo "spank_reveal.so: $(stat -c %s "$stripped") bytes stripped, $(size -A "$plugin" | awk '/^\.(text|rodata)/ { n += $2 } END { print n }') of code and text"
echo "needs: $needed; wants: $wanted"
echo "exports: $shown"
rm -f "$stripped"
[ $failures -eq 0 ]
