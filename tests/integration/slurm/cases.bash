# Loaded by the .bats files: a cluster for each file, a row of the matrix for each case.
#
# A case names its situation, runs its jobs, and hands what came of them to unchanged, started, nothing_left, report and
# the others; these only take notes, so that a case is judged whole. verdict writes the row and fails the test.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
user=${REVEAL_TEST_USER:-games} # needs an entry in passwd; nothing else runs as this one

# cluster_start PREFIX [PLUGIN-ARGUMENT...]: in setup_file, or in a test that needs a cluster of its own.
cluster_start() {
  export CLUSTER_PREFIX=$1
  shift
  # Not in TMPDIR: names of sockets are limited to 108 bytes.
  DIR=$(mktemp -d /tmp/rvXXXXXX)
  export DIR SLURM_CONF=$DIR/slurm.conf
  mkdir -m 755 "$DIR/work"
  install -d -m 700 -o "$user" "$DIR/home"
  bash "$here/cluster.sh" start "$DIR" "$@"
}
cluster_stop() {
  [ -n "${DIR:-}" ] || return 0 # none was started
  cd /
  bash "$here/cluster.sh" stop "$DIR" || return 1
  [ -n "${REVEAL_KEEP:-}" ] || rm -rf "$DIR"
}

# as_user COMMAND...: as the job's user, in an environment like that after a login.
as_user() {
  setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups env -i PATH=/usr/bin:/bin HOME="$DIR/home" \
    USER="$user" LOGNAME="$user" LANG=C.UTF-8 SLURM_CONF="$SLURM_CONF" "$@" </dev/null 3>&-
}

# leave_out REASON: in setup_file, where skip itself would fail the file (bats 1.8). All cases of the file are skipped.
leave_out() { export left_out=$1; }
setup() { [ -z "${left_out:-}" ] || skip "$left_out"; }

reveal_program() { echo "${REVEAL_BIN:-$DIR/bin}/reveal"; }

until_true() { # until_true SECONDS COMMAND...: polls
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt "$end" ] || return 1
    sleep 0.2
  done
}

situation() { # situation TEXT: begins a case, in an empty directory of the user
  row_situation=$1 row_status= row_started= row_left= row_report= row_drained=
  problems=()
  work=$(mktemp -d "$DIR/work/XXXXXX")
  chown "$user" "$work"
  cd "$work" || return 1
}
problem() { problems+=("$*"); }
note() { # note ROW-VARIABLE TEXT: several jobs of a case share a cell
  local -n cell=$1
  case ", $cell," in
    *", $2,"*) ;;
    *) cell=${cell:+$cell, }$2 ;;
  esac
}

job_field() { scontrol show job -o "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1; }
job_ended() {
  case $(job_field "$1" JobState) in
    PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | REQUEUED | '') return 1 ;;
  esac
}
job_runs() { [ "$(job_field "$1" JobState)" = RUNNING ]; }
# has_started JOB NODE...: the collectors are there; the job goes on.
has_started() {
  local job=$1 node
  shift
  for node; do compgen -G "$DIR/started/$job.$node.*" >/dev/null || return 1; done
}

unchanged() { # unchanged EXPECTED GOT
  if [ "$1" = "$2" ]; then
    note row_status "yes ($1)"
  else
    note row_status "NO ($2 instead of $1)"
    problem "exit status $2 instead of $1"
  fi
}
batch_unchanged() { # batch_unchanged JOB STATE EXITCODE: waits for the job's end
  until_true 60 job_ended "$1" || problem "job $1 does not end: $(job_field "$1" JobState)"
  unchanged "$2 $3" "$(job_field "$1" JobState) $(job_field "$1" ExitCode)"
}

# What srun says while the node is freed from the job before is nobody's business here.
# Without what Slurm says for itself when the machine is busy.
said() {
  grep -vE '^srun: job [0-9]* (queued and waiting for|has been allocated) resources$|^srun: (Job [0-9]* step creation temporarily disabled|Step created for job)' "$1" | sort
}
says() { # says FILE [LINE...]: the file holds exactly these lines, in any order
  local file=$1
  shift
  diff <(said "$file") <([ $# -eq 0 ] || printf '%s\n' "$@" | sort) >"$DIR/diff" ||
    problem "$file is not what the job wrote: $(cat "$DIR/diff")"
}
says_the_same() { # says_the_same FILE FILE-WITHOUT-REVEAL
  diff <(said "$1") <(said "$2") >"$DIR/diff" || problem "$1: something else than without --reveal: $(cat "$DIR/diff")"
}

starts_of() { # starts_of JOB: the nodes on which a collector was started, a name for each start
  local file
  for file in "$DIR/started/$1".*; do
    case $file in
      *.fds | *.environment | *'*') ;;
      *) file=${file#"$DIR/started/$1."} && echo "${file%.*}" ;;
    esac
  done | sort
}
started() { # started JOB NODE...: one collector on each of these nodes, none elsewhere
  local job=$1 got want
  shift
  got=$(starts_of "$job" | xargs)
  want=$(for node; do echo "$node"; done | sort | xargs)
  note row_started "${got:-none}"
  [ "$got" = "$want" ] || problem "job $job: collectors started on \"$got\", not on \"$want\""
}

# The sampler and the broker of a job on a node; the broker is root.
collectors_of() { # collectors_of JOB NODE [UID]
  local process
  for process in $(grep -lsz -- "^slurm:$1\$" /proc/[0-9]*/cmdline); do
    process=${process%/cmdline}
    grep -qsz -- "^$2\$" "$process/cmdline" || continue
    [ -z "${3:-}" ] || [ "$(stat -c %u "$process" 2>/dev/null)" = "$3" ] || continue
    echo "${process#/proc/}"
  done
}
traces_of() { # traces_of JOB: processes, locks and files of reveal that the job left on this machine
  local process
  for process in $(grep -lsz -- "^slurm:$1\$" /proc/[0-9]*/cmdline); do
    process=${process%/cmdline}
    echo "process ${process#/proc/} $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null)"
  done
  find "$DIR/spool" -regex ".*/\(failed\.\)?$1\([^0-9].*\)?" -printf 'file %p\n' 2>/dev/null
}
no_traces_of() { [ -z "$(traces_of "$1")" ]; }
nothing_left() { # nothing_left JOB
  if until_true 40 no_traces_of "$1"; then
    note row_left 0
  else
    note row_left "$(traces_of "$1" | wc -l)"
    problem "job $1 left: $(traces_of "$1")"
  fi
}
# only_left JOB REGEX WHAT: traces are due, for example the lock of a collector that was killed.
only_left() {
  no_other_traces() { ! traces_of "$1" | grep -qvE "$2"; }
  until_true 40 no_other_traces "$1" "$2" || problem "job $1 left: $(traces_of "$1")"
  traces_of "$1" | grep -qE "$2" || problem "job $1: no $3 is left"
  note row_left "$3"
}

report_flaws() { # report_flaws FOLDER JOB NODE...: what is missing in the folder, nothing if it is as it must be
  local folder=$1 job=$2 name names=()
  shift 2
  [ -d "$folder" ] || { echo "there is no $folder" && return; }
  [ "$(stat -c '%a %U' "$folder")" = "${report_mode:-700} ${report_owner:-$user}" ] ||
    stat -c "mode and owner are %a %U" "$folder"
  # run.json is due where it is known what ran ("sbatch with a script of its own"): not where it was an interpreter.
  names=(report.json report.txt report.html)
  for name; do names+=("$name.h5" "$name.summary.json"); done
  diff <(printf '%s\n' "${names[@]}" | sort) <(ls "$folder" | grep -vx run.json) | sed -n "s/^</missing:/p;s/^>/not due:/p"
  # Names with a dot are the claim and the lease of reveal itself.
  find "$folder" ! -user "${report_owner:-$user}" -printf '%p belongs to %u\n'
  /usr/bin/python3 - "$folder/report.json" "$job" "$@" <<'PYTHON'
import json, sys
path, job, *nodes = sys.argv[1:]
try:
    report = json.load(open(path))
except (OSError, ValueError) as error:
    sys.exit(print("report.json:", error))
covered = sorted(node for entry in report["coverage"] if entry["samples_present"] for node in entry["nodes"])
if report["schema"] != "reveal.report/1":
    print("schema", report["schema"])
if str(report["job"]["id"]) != job:
    print("job id", report["job"]["id"], "instead of", job)
if covered != sorted(nodes):
    print("nodes", covered, "instead of", nodes)
if report["partial"]:
    print("the report says that it is partial")
PYTHON
}
# partial_report FOLDER JOB NODE...: a report about these nodes, which says that something is missing.
partial_report() {
  rough_flaws() { report_flaws "$@" | grep -vE '^(missing|not due):.*\.(h5|h5\.part|summary\.json)$|partial$'; }
  smooth_enough() { [ -z "$(rough_flaws "$@")" ]; }
  if until_true 20 smooth_enough "$@"; then
    note row_report "yes, partial"
  else
    note row_report NO
    problem "$1: $(rough_flaws "$@")"
  fi
}
flawless() { [ -z "$(report_flaws "$@")" ]; }
report() { # report FOLDER JOB NODE...
  if until_true 20 flawless "$@"; then
    note row_report yes
  else
    note row_report NO
    problem "$1: $(report_flaws "$@")"
  fi
}
no_report() { # no_report [WHY]: nothing appears in the working directory, however long one looks
  note row_report "none, as due${1:+ ($1)}"
  sleep 1
  ! compgen -G "$work/reveal-*" >/dev/null || problem "a directory that nobody wants: $(ls -d "$work"/reveal-*)"
}

# kept_in_spool JOB NODE...: nowhere to write as the user: report and traces wait on the node.
kept_in_spool() {
  local job=$1 place=$DIR/spool/$2/$1 report_owner=root report_mode=750 # with an access control list for the user
  if until_true 20 flawless "$place" "$@"; then
    note row_report "yes, in the spool"
  else
    note row_report NO
    problem "$place: $(report_flaws "$place" "$@")"
  fi
  as_user "$(reveal_program)" show "$place" >"$DIR/shown" || problem "reveal show: status $?"
  # It ends with where the report is, as it was typed, and what to type next.
  cmp <(head -n -2 "$DIR/shown") <(head -n -1 "$place/report.txt") || problem "reveal show prints something else"
  only_left "$job" "/spool/$2/$job(/.*)?\$" "traces in the spool"
}
# delivered_or_kept JOB FOLDER: a trace is in the one or in the other.
delivered_or_kept() {
  no_process_of() { ! traces_of "$1" | grep -q '^process'; }
  until_true 20 no_process_of "$1" || problem "job $1 left: $(traces_of "$1")"
  if compgen -G "$2/*.h5*" >/dev/null; then
    note row_report "$(compgen -G "$2/report.json" >/dev/null && echo yes || echo "traces only")"
    note row_left 0
  elif compgen -G "$DIR/spool/*/$1/*.h5*" >/dev/null; then
    note row_report "$(compgen -G "$DIR/spool/*/$1/report.json" >/dev/null && echo "yes, in the spool" || echo "traces only")"
    note row_left "traces in the spool"
  else
    note row_report NO
    problem "no trace in $2 or $DIR/spool/*/$1"
  fi
}
# nothing_left_but_locks JOB: a collector that crashed leaves its lock to the breaker.
nothing_left_but_locks() {
  none_but_locks() { ! traces_of "$1" | grep -qvE "/run/$1\.[^/]*\$"; }
  until_true 15 none_but_locks "$1" || problem "job $1 left: $(traces_of "$1")"
  note row_left "$(no_traces_of "$1" && echo 0 || echo lock)"
}

# Only environment variables that the plugin may pass on, only the descriptors 0, 1, 2 and the lock.
started_cleanly() { # started_cleanly JOB
  local file foreign
  for file in "$DIR/started/$1".*.environment; do
    [ -e "$file" ] || continue
    foreign=$(sed 's/=.*//' "$file" | grep -vxE 'PATH|LANG|SLURM_CONF|SLURM_CLUSTER_NAME|SLURMD_NODENAME|SLURM_JOB_USER|SLURM_JOB_NODELIST|SLURM_NODELIST|SLURM_STEP_NODELIST|SLURM_JOB_WORK_DIR|SLURM_(JOB_)?RESTART_COUNT|SLURM_HET_JOB_(ID|OFFSET)|SLURM_ARRAY_(JOB|TASK)_ID|SLURM_JOB_(NAME|PARTITION|ACCOUNT|GPUS)|SPANK_REVEAL_DIR|SPANK_REVEAL_STACK|REVEAL_REQUEST|REVEAL_PROLOG_NODES' || true)
    [ -z "$foreign" ] || problem "$file: $(echo "$foreign" | xargs)"
    # 10 is the script that records this.
    foreign=$(awk 'NF > 8 { print $9, $11 }' "${file%.environment}.fds" | grep -vE "^(0|1|2) /dev/null$|^3 .*/run/$1\.|^10 .*/recorder$" || true)
    [ -z "$foreign" ] || problem "${file%.environment}.fds: $foreign"
  done
}

nodes_in_service() { ! sinfo -h -N -o '%N %T %E' | grep -E 'drain|down|fail|not responding|[a-z]\*'; }
verdict() {
  local bad
  if bad=$(nodes_in_service) && [ -z "$(sinfo -R -h)" ]; then
    row_drained=no
  else
    row_drained=YES
    problem "nodes: $bad $(sinfo -R -h)"
  fi
  matrix_row
  [ ${#problems[@]} -gt 0 ] || return 0
  printf 'problem: %s\n' "${problems[@]}"
  grep -h reveal: "$DIR"/slurmd-*.log | tail -n 20 || true
  return 1
}
matrix_row() {
  printf '%s | %s | %s | %s | %s | %s\n' "$row_situation" "${row_status:--}" "${row_started:--}" "${row_left:--}" \
    "${row_report:--}" "$row_drained" >>"${REVEAL_MATRIX:-$DIR/matrix}"
  row_situation=
}
# A case that broke off has its row too.
teardown() {
  [ -z "${row_situation:-}" ] || { row_drained="NOT JUDGED" && matrix_row; }
}
