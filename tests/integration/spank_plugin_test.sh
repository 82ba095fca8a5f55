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

host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT
include=$(sed -n 's/^SLURM_SPANK_INCLUDE:[A-Z]*=//p' "$REVEAL_BUILD/CMakeCache.txt")
if [ "$(id -u)" != 0 ]; then
  echo "skipped: prolog and epilog (their files must be root's)"
elif ! cc -rdynamic -isystem "$include" -o "$host/host" "$REVEAL_SOURCE/tests/doubles/spank_host.c" -ldl; then
  echo "skipped: prolog and epilog (nothing to compile with)"
else
  # A collector that writes down what it gets, and runs until it is asked to end.
  cat >"$host/collector" <<END
#!/bin/bash
echo "\$\$ \$(sed 's/.*) //' /proc/\$\$/stat | cut -d' ' -f20)" >&3
trap 'rm -f "$host/spool/run/4711.n1"; touch "$host/asked"; exit' TERM
tr '\\0' '\\n' </proc/\$\$/environ >"$host/environment.new"
mv "$host/environment.new" "$host/environment"
for i in \$(seq 200); do sleep 0.1; done
END
  chmod 755 "$host" "$host/collector"
  mkdir -m 711 "$host/spool"
  until_there() {
    for _ in $(seq 200); do [ ! -e "$1" ] || return 0; sleep 0.05; done
    return 1
  }
  call() { # call WHAT ARGUMENT...: one callback, of a node without Slurm
    env -i PATH="$PATH" SLURMD_NODENAME=n1 HOST_REQUEST=output=out SLURM_JOB_NODELIST="$nodes" SLURM_NODELIST="$nodes" \
      SLURM_CONF=/slurm.conf "$host/host" "$plugin" "$1" collector="$host/collector" spool="$host/spool" \
      disable="$host/disable" "${@:2}" || fail "$1 with ${#nodes} letters of nodes: status $?"
  }
  # A list of nodes may be long. What the collector cannot do without must not depend on that.
  for length in 10 10850 10880 16330 30000; do
    nodes=$(printf '%*s' "$length" '' | tr ' ' n)
    call prolog
    until_there "$host/environment" || fail "no collector with $length letters of nodes"
    for wanted in PATH=/usr/sbin:/usr/bin:/sbin:/bin REVEAL_REQUEST=output=out SLURM_CONF=/slurm.conf \
      "REVEAL_PROLOG_NODES=$nodes" "SLURM_JOB_NODELIST=$nodes"; do
      grep -qxF "$wanted" "$host/environment" || fail "$length letters of nodes: the collector has no ${wanted:0:40}"
    done
    # An epilog that does not wait asks the collector to end all the same.
    call epilog epilog_seconds=0 2>/dev/null
    until_there "$host/asked" || fail "an epilog without time asks nobody to end"
    rm -f "$host/asked" "$host/environment"
  done
fi
[ $failures -eq 0 ]
