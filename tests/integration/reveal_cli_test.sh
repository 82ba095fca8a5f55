#!/bin/bash
# The command `reveal` as its contract says: exit statuses, one line per error, bad input beside good input, nothing lost.
set -u
reveal=$REVEAL_BUILD/bin/reveal
collect=$REVEAL_BUILD/bin/reveal-collect
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export XDG_CONFIG_HOME=$work/no-config
failures=0

fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

# expect STATUS "part of the only line on stderr, or -" command...
expect() {
  local status=$1 words=$2
  shift 2
  "$@" >out 2>err
  local got=$?
  [ "$got" = "$status" ] || fail "$*: exit status $got instead of $status: $(head -c 300 err)"
  if [ "$words" = - ]; then
    [ ! -s err ] || fail "$*: unexpected on stderr: $(head -c 300 err)"
  else
    [ "$(wc -l <err)" = 1 ] || fail "$*: $(wc -l <err) lines on stderr instead of one"
    grep -qF -- "$words" err || fail "$*: stderr does not say '$words' but: $(head -c 300 err)"
  fi
}

json() { /usr/bin/python3 -c "import json,sys; r=json.load(open('$1')); sys.exit(0 if ($2) else 1)" || fail "$1: not $2"; }

# --- wrong usage, wrong places
expect 2 'did you mean "report"?' "$reveal" rport x
expect 2 'did you mean "--json"?' "$reveal" report --jsn x
expect 2 'required' "$reveal"
expect 1 'no directory reveal-* of yours here' "$reveal" show
expect 2 'see reveal show --help' "$reveal" show --nosuchoption
expect 0 - "$reveal" --help
expect 0 - "$reveal" report --help
"$reveal" watch --help | grep -q 'in percent of one core (default 10)' || fail "help names no default: $("$reveal" watch --help)"
"$reveal" export --help | grep -q -- '--json' && fail "the help of export offers --json, which it has not"
grep -q 'Examples:' out || fail "help has no examples"
"$reveal" --help >/dev/full 2>err && fail "a help that cannot be written ends with status 0"
expect 0 - "$reveal" --version
expect 0 - "$reveal" -V
expect 0 - "$reveal" help
cp out help.txt
"$reveal" --help | cmp -s - help.txt || fail "reveal help is not reveal --help"
expect 0 - "$reveal" help show
grep -q 'reveal show reveal-4711' out || fail "reveal help show has no examples"
expect 2 'did you mean "show"?' "$reveal" help shwo
expect 1 "no directory $work/nowhere; reveal list" "$reveal" report "$work/nowhere"
expect 1 'no directory 4711 or reveal-4711 here' "$reveal" show 4711
mkdir with_file && touch with_file/n03.txt
expect 1 '(NODE.h5 or NODE.h5.part) in with_file' "$reveal" report with_file/n03.txt
mkdir empty
expect 1 '(NODE.h5 or NODE.h5.part) in empty' "$reveal" report empty
expect 1 '(NODE.h5 or NODE.h5.part) in empty' "$reveal" merge empty
mkdir text && echo 'not a trace' >text/n01.h5
expect 1 'n01.h5' "$reveal" report text
expect 0 - "$reveal" rules
expect 0 - "$reveal" rules --json
json out "any(rule['id'] == 'cpu.outsider' for rule in r['rules'])"
expect 0 - "$reveal" rules net
grep -q '^net\.' out && ! grep -q '^cpu\.' out || fail "rules net lists other rules: $(cat out)"
expect 1 'did you mean "net"?' "$reveal" rules nett
expect 0 - "$reveal" rules cpu.outsider
for words in 'looks for' 'proven by' 'min_cpu = 0.15' '\[rule."cpu.outsider"\]'; do
  grep -q "$words" out || fail "rules cpu.outsider does not say: $words"
done
expect 1 'did you mean "cpu.outsider"?' "$reveal" rules cpu.outsidr
expect 0 - "$reveal" rules --json cpu.outsider
json out "len(r['rules']) == 1 and r['rules'][0]['proof_means']"
printf '[rule."cpu.outsider"]\nmin_cpus = 1\n' >bad.conf
expect 0 'bad.conf:2: unknown key "min_cpus"' "$reveal" rules --config bad.conf
printf '[reprot]\n' >bad.conf
expect 0 'did you mean [report]?' "$reveal" rules --config bad.conf
printf '[slurm]\nreprot = "job"\nreport = "lazy"\nkeep_days = 3\n[rule."cpu.outsider"]\nmin_cpu = 0.5\n' >some.conf
expect 0 'some.conf:2: unknown key "reprot" in [slurm]; did you mean "report"?' "$reveal" config --config some.conf
grep -q '^report = "lazy"  *# some.conf:3$' out && grep -q '^min_cpu = 0.5  *# some.conf:6$' out || fail "config: $(cat out)"
expect 0 'unknown key' "$reveal" config --config some.conf slurm.keep_days
[ "$(cat out)" = 3 ] || fail "config slurm.keep_days: $(cat out)"
expect 1 'did you mean "slurm.keep_days"?' "$reveal" config slurm.keep_day
REVEAL_INTERVAL=1s expect 0 - "$reveal" config --json run.interval
json out "r['keys'][0] == {'section': 'run', 'key': 'interval', 'value': '1s', 'from': 'REVEAL_INTERVAL'}"
expect 0 - "$reveal" config --template
cmp -s out "$REVEAL_SOURCE/site-config/reveal.conf" || fail "--template is not site-config/reveal.conf"
expect 2 'did you mean "paper"?' "$reveal" report empty --pipeline papre
expect 0 - "$reveal" --json rules
json out "r['rules']"
expect 0 - "$reveal" probes --json
expect 0 - "$reveal" probes cpu
grep -q 'Running user code' out || fail "probes cpu does not say what a metric means"
expect 1 'did you mean "cpu"?' "$reveal" probes cpuu
# What one option says is not left out silently for another one.
expect 1 'prints no JSON' "$reveal" probes --markdown --json
expect 1 'prints no JSON' "$reveal" config --template --json
expect 2 'excludes' "$reveal" config --template run.interval
expect 2 'excludes' "$reveal" show empty --episodes --finding cpu.outsider
expect 2 'excludes' "$reveal" feedback empty cpu.outsider words --take-back
expect 2 'requires --mail' "$reveal" nodes empty --dry-run
"$reveal" doctor >out 2>err
[ $? -le 1 ] && [ ! -s err ] || fail "doctor: $(cat err)"
head -1 out | grep -qE '^(reveal works on this node|[0-9]+ problems? to fix \(below\)): [0-9]+ of [0-9]+ probes' || fail "doctor has no summary: $(head -3 out)"
grep -q 'to enable it: run the command under reveal-run' out || fail "doctor does not print how to enable missing probes"
grep -A1 '^NUMA topology' out | grep -qE 'NUMA node|not known' || fail "doctor draws no map: $(tail -5 out)"
[ "$(COLUMNS=60 "$reveal" doctor | awk 'length > 90' | wc -l)" = 0 ] || fail "doctor's lines do not fold"
"$reveal" doctor --json >out
json out "r['schema'] == 'reveal.doctor/1' and r['problems'] == sum(c['result'] == 'problem' for c in r['checks'])"
json out "(r['locality']['places'] == []) == bool(r['locality']['note'])"
# An archive for support: none of the names that were planted is in it.
mkdir -p "secretfolder/with blanks"
cp /bin/sleep secretfolder/secretprogram
planted=(env USER=secretuser HOSTNAME=secrethost.example.org API_TOKEN=secrettoken PROJECT=secretproject REVEAL_BIN="$PWD/secretfolder")
"${planted[@]}" "$REVEAL_BUILD/bin/reveal-run" --quiet --node secretnode --name secretname --tag k=secrettag --output "secretfolder/with blanks/run" -- secretfolder/secretprogram 1
"${planted[@]}" "$reveal" doctor --bundle secretfolder/bundle.tar.gz --job "secretfolder/with blanks/run" >out 2>err
[ $? -le 1 ] && [ ! -s err ] || fail "doctor --bundle: $(cat err)"
[ "$(stat -c %a secretfolder/bundle.tar.gz)" = 600 ] || fail "others can read the archive for support"
[ "$(tar -tzf secretfolder/bundle.tar.gz | sort | xargs)" = "reveal-support/collector.txt reveal-support/doctor.json reveal-support/settings.json reveal-support/versions.txt" ] ||
  fail "the archive for support has $(tar -tzf secretfolder/bundle.tar.gz 2>&1)"
tar -xzf secretfolder/bundle.tar.gz
if grep -rniE "secret|$PWD" reveal-support || grep -rniw "$(hostname)" reveal-support; then fail "the archive for support contains names"; fi
grep -q '^host[0-9]*: recorded by reveal .*, closed$' reveal-support/collector.txt || fail "no notes of the collector: $(head -3 reveal-support/collector.txt)"
grep -q '^  probe cpu: ok' reveal-support/collector.txt || fail "no coverage: $(cat reveal-support/collector.txt)"
json reveal-support/doctor.json "r['schema'] == 'reveal.doctor/1'"
grep -q '  doctor.json  *[0-9]* bytes' out && grep -q 'replaced by placeholders: ' out || fail "doctor does not print what the archive contains: $(tail -8 out)"
expect 1 'File exists' "$reveal" doctor --bundle secretfolder/bundle.tar.gz
expect 2 'requires --bundle' "$reveal" doctor --job secretfolder
mkdir broken
cp "$reveal" broken/
cp "$collect" broken/
broken/reveal doctor >out 2>err
[ $? = 1 ] || fail "doctor finds no fault with a missing program"
grep -q 'reveal-run is missing' out || fail "doctor does not name the missing program: $(cat out)"
printf '#!/bin/sh\nexit 1\n' >broken/reveal-collect
expect 1 - broken/reveal doctor
grep -q '^probes  *problem ' out && grep -q '^history ' out || fail "doctor without the collector: $(cat out)"

# --- old runs: the limits of reveal.conf, where none is typed
for age in 1 40; do
  mkdir -p "kept/of-$age-days"
  printf '{"schema": "reveal.run/1", "run_id": "%s", "key": "k", "begin_utc_ns": %s000000000}\n' $age "$(date -d "$age days ago" +%s)" >"kept/of-$age-days/run.json"
done
expect 2 'choose which runs to delete' "$reveal" clean kept
for setting in 'keep_days = 30' 'keep_number = 1' 'keep_total = "5000"'; do
  printf '[report]\n%s\n' "$setting" >keep.conf
  expect 0 - "$reveal" clean kept --config keep.conf
  grep -q 'would delete 1 of 2 runs' out && grep -q 'kept/of-40-days' out || fail "$setting: $(cat out)"
done
expect 0 - "$reveal" clean kept --config keep.conf --older-than 10w
grep -q 'would delete 0 of 2 runs' out || fail "a limit that is typed does not replace those of reveal.conf: $(cat out)"
expect 0 - "$reveal" clean kept --config keep.conf --delete
[ "$(ls kept)" = of-1-days ] || fail "clean --delete left $(ls kept)"

# --- a node without a job: this one, a good and a bad copy, and none
tree() { # tree NAME CLOCKSOURCE GOVERNOR LANES
  local cpus=$1/sys/devices/system/cpu clock=$1/sys/devices/system/clocksource/clocksource0 pci=$1/sys/bus/pci/devices cpu
  mkdir -p "$1/proc" "$clock" "$cpus/cpu0/cpufreq" "$cpus/cpu1/cpufreq" "$pci/0000:81:00.0"
  echo 0-1 >"$cpus/online"
  echo "$2" >"$clock/current_clocksource"
  for cpu in 0 1; do
    echo acpi-cpufreq >"$cpus/cpu$cpu/cpufreq/scaling_driver"
    echo "$3" >"$cpus/cpu$cpu/cpufreq/scaling_governor"
  done
  echo 0x020700 >"$pci/0000:81:00.0/class"
  echo 16 | tee "$pci/0000:81:00.0/max_link_width" >"$pci/max_link_width"  # the port's is above the card's real folder
  echo "$4" >"$pci/0000:81:00.0/current_link_width"
  printf 'cpu0 10 0 5 100 0 0 0 0 0 0\ncpu1 10 0 5 100 0 0 0 0 0 0\n' >"$1/proc/stat"
}
tree good tsc performance 16
expect 0 - "$reveal" check --root good --seconds 1 --textfile good.prom
grep -qxE 'OK - [0-9]+ checks, [0-9]+ not possible' out || fail "a good node: $(cat out)"
grep -qx 'reveal_check_status 0' good.prom || fail "a good node: $(cat good.prom)"
[ "$(stat -c %a good.prom)" = 644 ] || fail "node_exporter cannot read the file: $(stat -c %a good.prom)"
tree bad hpet powersave 4
expect 1 - "$reveal" check --root bad --seconds 1 --textfile bad.prom
[ "$(wc -l <out)" = 1 ] && grep -q '^WARNING - .*cpu.clocksource_not_tsc' out || fail "a bad node: $(cat out)"
grep -qx 'reveal_check_rule_status{rule="pcie.link_downtrained"} 1' bad.prom || fail "a narrow link: $(cat bad.prom)"
expect 1 - "$reveal" check --root bad --seconds 1 --all
grep -q '4 of 16 lanes' out && grep -q 'cpupower frequency-set -g performance' out || fail "check --all: $(cat out)"
mkdir -p bad/sys/devices/system/edac/mc/mc0
echo 0 >bad/sys/devices/system/edac/mc/mc0/ce_count
echo 3 >bad/sys/devices/system/edac/mc/mc0/ue_count
expect 2 - "$reveal" check --root bad --seconds 1 --json
json out "r['schema'] == 'reveal.check/1' and r['exit_status'] == 2 and r['findings'][0]['id'] == 'mem.ecc_host'"
json out "r['findings'][0]['remedy']['admin'] and r['not_checked']"
printf '[rule."mem.ecc_host"]\nenabled = false\n' >without.conf
expect 1 - "$reveal" check --root bad --seconds 1 --config without.conf
expect 3 - "$reveal" check --root nowhere --textfile none.prom
grep -q '^UNKNOWN - .*nowhere' out && grep -qx 'reveal_check_status 3' none.prom || fail "no node: $(cat out none.prom)"
"$reveal" check empty >out 2>err
[ $? = 3 ] && grep -q '^UNKNOWN - no trace (NODE.h5 or NODE.h5.part) in empty' out || fail "check of an empty directory: $(cat out err)"
expect 3 'did you mean "--all"?' "$reveal" check --al
expect 3 'nowhere: No such file or directory' "$reveal" check --root nowhere --textfile nowhere/x.prom
TMPDIR=$work "$reveal" check --seconds 1 >out 2>err
[ $? -le 2 ] && [ "$(wc -l <out)" = 1 ] && [ ! -s err ] || fail "check of this node: $(cat out err)"
[ ! -e "$work/reveal-check-$(id -u)" ] || fail "check leaves recordings"
if unshare -m mount -t tmpfs none /mnt 2>/dev/null; then # the fault that it looks for does not hide the others
  mkdir small
  unshare -m sh -c 'mount -t tmpfs -o size=8M none small && ! cat /dev/zero >small/fill 2>/dev/null && TMPDIR=$PWD/small "$0" check --seconds 1' "$reveal" >out 2>err
  [ $? -le 2 ] && [ "$(wc -l <out)" = 1 ] && ! grep -q UNKNOWN out || fail "check beside a full directory for temporary files: $(cat out err)"
fi

# --- a real trace of this machine, short and long enough to be read
mkdir job
"$collect" --output job/n01.h5 --node n01 --job pid:$$ --run-key name:test --duration 4s || { echo "no trace could be recorded"; exit 1; }
expect 0 - "$reveal" report job
json job/report.json "r['schema'] == 'reveal.report/1' and r['verdict']['status'] in ('insufficient_data', 'finding')"
for name in report.json report.txt report.html n01.summary.json; do [ -s "job/$name" ] || fail "job/$name is missing"; done
[ "$(stat -c %s job/n01.summary.json)" -le 200000 ] || fail "the summary is too large"
[ -z "$(ls -A job | grep '^\.')" ] || fail "temporary files are left: $(ls -A job)"
cp out first.txt
expect 0 - "$reveal" show job
cmp -s out first.txt || fail "show prints something else than report did"

# --- the terminal: the verdict first, at the end where it is; six lines after a run; as wide and as colourful as asked
tail -n 2 out | head -n 1 | grep -q '^  report  *\./job/report\.html (reveal [0-9.]*)$' || fail "no path: $(tail -n 2 out)"
tail -n 1 out | grep -qx '  everything   reveal show --all job' || fail "no next command: $(tail -n 1 out)"
expect 0 - "$reveal" show job/n01.h5
cmp -s out first.txt || fail "a trace does not stand for its directory"
cp -r job reveal-4711
cp -r job reveal-4712
for wanted in reveal-4711 4711; do
  expect 0 - "$reveal" show "$wanted"
  grep -qx '  everything   reveal show --all reveal-4711' out || fail "show $wanted: $(tail -n 1 out)"
done
touch -d '2 hours ago' reveal-4711  # which show may have written into
expect 0 'this is the newest here, reveal-4712' "$reveal" show
expect 0 - "$reveal" export 4711 --format openmetrics
tail -n 1 out | grep -qx '# EOF' || fail "export --format openmetrics: $(tail -n 3 out)"
if [ "$(id -u)" = 0 ]; then
  cp -r job reveal-4713 && chown -R 65534 reveal-4713 && chmod 711 "$work"
  expect 0 'this is the newest here, reveal-4712' "$reveal" show
  printf '[mail]\nenabled = true\ndomain = "example.org"\nhealthy = true\n' >mail.conf
  expect 1 'does not send mail as root' "$reveal" mail reveal-4713 --config mail.conf
  "$reveal" mail reveal-4713 --config mail.conf --to yes --dry-run >out 2>err || fail "root cannot look at a mail: $(cat out err)"
  grep -q '^would be sent to \(nobody\|65534\)\|^not sent' out || fail "mail --dry-run of root: $(cat out err)"
  rm -r reveal-4713
fi
rm -r reveal-4711 reveal-4712
for node in n01 n02 n03; do mkdir -p three_nodes && cp job/n01.h5 "three_nodes/$node.h5"; done
"$reveal" check three_nodes >out 2>err
[ $? -le 2 ] && grep -qE '^job: (OK|WARNING|UNKNOWN) - [0-9]+ check' out || fail "check compares no settings: $(cat out err)"
"$reveal" check job >out 2>err
[ $? -le 2 ] && grep -qE '^n01: (OK|WARNING|CRITICAL) - ' out || fail "check of a job: $(cat out err)"
cp -r job forged
/usr/bin/python3 - <<'PY' || fail "a trace with a forged name of its node"
import h5py, numpy
with h5py.File('forged/n01.h5', 'r+') as trace:
    trace.attrs['node'] = numpy.bytes_(b'n01\x1b[2J\nn02: CRITICAL - x')
PY
"$reveal" check forged >out 2>err
[ $? -le 2 ] && [ "$(wc -l <out)" = 1 ] && grep -qE '^n01 n02: CRITICAL - x: (OK|WARNING|CRITICAL) - ' out || fail "a forged name: $(cat -v out err)"
rm -r forged
expect 3 'excludes' "$reveal" check job --seconds 5
mkdir two_nodes
: >two_nodes/n00.h5
cp job/n01.h5 two_nodes/
"$reveal" check --json two_nodes >out 2>err
json out "len(r) == 2 and r[0]['status'] == 'unknown' and r[1]['status'] != 'unknown'"
expect 0 - "$reveal" report job --brief --exit-code 7 --ran 4.25
[ "$(wc -l <out)" -le 6 ] || fail "more than six lines: $(cat out)"
grep -q 'reveal show job' out || fail "no next command: $(cat out)"
expect 0 - "$reveal" report job --json
json out "r['job']['ran_seconds'] == 4.25 and r['job']['exit_code'] == 7 and r['tool_version']"
json out "r['totals'][0]['node'] is None and r['totals'][1]['node'] == 'n01' and r['totals'][1]['cpu_seconds'] >= 0"
expect 0 - env COLUMNS=50 "$reveal" show job
[ "$(wc -L <out)" -le 60 ] || fail "wider than it was asked to be: $(wc -L <out)"
expect 0 - env TERM=dumb "$reveal" show job --color=always
grep -q "$(printf '\033')" out || fail "no colour although it was asked for"
expect 2 'excludes' "$reveal" show job --color=always --no-color
if command -v script >/dev/null; then
  on_terminal() { env TERM=xterm "$@" script -qec "'$reveal' show job" /dev/null </dev/null; }
  on_terminal NO_COLOR= | grep -qF "$(printf '\033[')" || fail "no colour on a terminal"
  on_terminal NO_COLOR=1 | grep -qF "$(printf '\033[')" && fail "colour although NO_COLOR is set"
  on_terminal TERM=dumb | grep -qF "$(printf '\033[')" && fail "colour on a terminal that has none"
fi
mkdir torn
head -c 500 job/report.json >torn/report.json
expect 1 'report.json: not JSON' "$reveal" show torn
expect 0 - "$reveal" show job --json
json out "r['job']['nodes'] == ['n01']"
expect 1 'did you mean "n01"?' "$reveal" show job --node n02
expect 2 'is no name of a node' "$reveal" show job --node ../job/n01
# A file of another node, younger than the report, is not a reason to make the report again.
cp -rp job lone
mkfifo lone/n02.h5
expect 0 - "$reveal" show lone --node n01
cmp -s lone/report.json job/report.json || fail "show --node n01 made the report of all nodes again"
grep -q n02 err && fail "show --node n01 read a file of n02: $(cat err)"
if [ "$(id -u)" = 0 ]; then # root's report in the directory of a user is read with his rights
  cp -rp job planted
  chmod 600 planted/report.json
  chown nobody planted
  expect 1 'planted/report.json: Permission denied' "$reveal" show planted --node n01
fi
rm job/report.json
expect 0 - "$reveal" show job
[ -s job/report.json ] || fail "show does not build a missing report"

# --- the traces of more than 1,000 nodes lie in folders
mkdir -p fan/nodes-06
cp job/n01.h5 fan/nodes-06/
expect 0 - "$reveal" report fan
[ -s fan/nodes-06/n01.summary.json ] && [ ! -e fan/n01.summary.json ] || fail "the summary is not beside its trace: $(ls -R fan)"
json fan/report.json "r['job']['nodes'] == ['n01'] and {'what': 'trace n01', 'path': 'nodes-06/n01.h5'} in r['files']"
expect 0 - "$reveal" show fan --node n01
expect 0 - "$reveal" show fan/nodes-06/n01.h5
expect 0 - "$reveal" merge fan
/usr/bin/python3 -c "import h5py; print(sorted(h5py.File('fan/job.h5')['nodes/n01']))" >out 2>err || fail "job.h5 has no node: $(cat err)"
PYTHONPATH=$REVEAL_SOURCE/hdf5schema/python /usr/bin/python3 -c "import reveal; print(len(reveal.job('fan', 'cpu.user')))" >out 2>err ||
  fail "reveal.job does not find the trace: $(cat err)"
cp job/n01.h5 fan/n00.h5
cp job/n01.h5 fan/nodes-06/n01.h5.earlier
PYTHONPATH=$REVEAL_SOURCE/hdf5schema/python /usr/bin/python3 - >out 2>err <<'PY' || fail "reveal.job with a damaged and an earlier trace: $(cat err)"
import h5py, reveal, warnings
with h5py.File('fan/n00.h5', 'r+') as trace:
    del trace['clock']
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter('always')
    assert len(reveal.job('fan', 'cpu.user'))
words = [str(one.message) for one in said]
assert any('n00.h5: left out' in one for one in words), words
assert any('a trace of their own, fan/nodes-06/n01.h5.earlier' in one for one in words), words
PY
rm fan/n00.h5 fan/nodes-06/n01.h5.earlier
expect 0 - "$reveal" export fan --format csv
if [ "$(id -u)" = 0 ]; then
  chown nobody fan/nodes-06/n01.h5
  expect 1 'n01.h5 belongs to nobody' "$reveal" merge fan
  chown 0:0 fan/nodes-06/n01.h5
fi

# --- one good trace among bad ones: each bad one has a line, the good one its report
cp job/n01.h5 job/n01.copy.h5
head -c 3000 job/n01.h5 >job/n02.h5
echo nonsense >job/n03.h5
/usr/bin/python3 - <<'PY' || exit 1
import h5py
with h5py.File('job/n04.h5', 'w') as foreign:
    foreign['x'] = [1, 2, 3]
PY
"$reveal" report job --expect 'n[01,05]' >out 2>err
[ $? = 0 ] || fail "bad traces beside a good one: $(cat err)"
for node in n02 n03 n04 n05; do
  [ "$(grep -c "$node" err)" = 1 ] || fail "not exactly one line about $node: $(cat err)"
done
grep -q 'two traces of n01' err || fail "no line about the second trace of n01"
json job/report.json "r['partial'] and r['job']['nodes'] == ['n01']"
rm job/n01.copy.h5 job/n02.h5 job/n03.h5 job/n04.h5

# --- a trace that was cut off
mkdir cut
"$collect" --output cut/n01.h5 --node n01 --job pid:$$ --duration 60s &
collector=$!
disown  # else the shell reports its end
sleep 13
kill -9 $collector
while kill -0 $collector 2>/dev/null; do sleep 0.1; done
[ -s cut/n01.h5.part ] || fail "no .part after kill -9"
expect 0 - "$reveal" report cut
json cut/report.json "r['partial'] and 'cut off' in r['coverage'][0]['note']"
expect 0 'cut off' "$reveal" merge cut --pack

# --- export: a table that others can read
expect 2 'not in {csv,parquet,windows,python,perfetto,openmetrics}' "$reveal" export cut --format xls
expect 1 'no channel "no.such"' "$reveal" export cut --format csv --metrics no.such
expect 1 'export has no --json' "$reveal" export cut --format csv --json
expect 0 'no channel "pmu.no_such"' "$reveal" export cut --format csv --metrics 'cpu.user,pmu.no_such'
head -1 out | grep -q 'cpu.user/cpu0 \[ns per 0.1 s\]' || fail "no units: $(head -1 out)"
expect 1 'no trace of node "n09", only of n01' "$reveal" export cut --format csv --node n09
expect 0 - "$reveal" export cut --format csv --metrics 'cpu.user,mem.utilization,cpu.context_switch_rate'
/usr/bin/python3 - <<'PY' || fail "the table is not what pandas would expect: $(head -c 300 out)"
import csv
from datetime import datetime
with open('out', newline='') as file:
    head, *rows = csv.reader(file)
assert head[0] == 'time' and any(name.startswith('cpu.user/cpu') for name in head), head
[rate] = [i for i, name in enumerate(head) if name.startswith('cpu.context_switch_rate [')]
times = [datetime.fromisoformat(row[0].replace('Z', '+00:00')) for row in rows]
steps = [(b - a).total_seconds() for a, b in zip(times, times[1:])]
assert len(rows) > 50 and all(abs(step - .1) < .001 for step in steps), (len(rows), steps[:3])
assert all(len(row) == len(head) for row in rows)
assert sum(float(row[rate]) > 0 for row in rows if row[rate]) > len(rows) / 2
PY

# --- several nodes are one table
mkdir both && cp cut/n01.h5.part both/
"$collect" --output both/n02.h5 --node n02 --duration 1s --probes memory || fail "a second node"
expect 0 - "$reveal" export both --format csv --metrics mem.available
/usr/bin/python3 - <<'PY' || fail "not a table of two nodes: $(head -c 300 out)"
import csv
with open('out', newline='') as file:
    head, *rows = csv.reader(file)
assert head == ['time', 'node', 'mem.available [bytes]'], head
assert {row[1] for row in rows} == {'n01', 'n02'} and all(len(row) == 3 for row in rows), rows[:2]
PY
expect 0 - "$reveal" export both --format csv --node n02 --metrics mem.available
head -1 out | grep -qx 'time,mem.available \[bytes\]' || fail "one node has a column for its name: $(head -1 out)"
expect 1 'main threads of Python were not measured' "$reveal" export both --format python
rm both/n02.h5
"$collect" --output both/n02.h5 --node n02 --duration 5s --probes memory || fail "a second node, longer"
expect 0 - "$reveal" export both --format windows --metrics mem.available
/usr/bin/python3 - <<'PY' || fail "not the windows of two nodes: $(head -c 300 out)"
import csv
with open('out', newline='') as file:
    head, *rows = csv.reader(file)
assert head[:3] == ['begin', 'end', 'node'], head
assert {row[2] for row in rows} == {'n01', 'n02'} and all(len(row) == len(head) for row in rows), rows[:2]
PY
expect 0 - "$reveal" export both --format windows --metrics mem.available --node n02
[ "$(tail -n +2 out | cut -d, -f3 | sort -u)" = n02 ] || fail "--node n02: $(head -c 300 out)"

# --- the textfile of a collector is replaced at once
expect 0 - "$reveal" export cut --format openmetrics --textfile job.prom
[ ! -s out ] || fail "export --textfile prints, too: $(cat out)"
[ "$(tail -1 job.prom)" = '# EOF' ] && [ "$(stat -c %a job.prom)" = 644 ] || fail "job.prom: $(stat -c %a job.prom; tail -1 job.prom)"
expect 1 '--textfile needs --format openmetrics' "$reveal" export cut --format csv --textfile job.prom
expect 1 'nowhere' "$reveal" export cut --format openmetrics --textfile nowhere/job.prom
mkdir stays && cp job.prom stays/ && chmod 555 stays
[ "$(id -u)" = 0 ] || expect 1 'stays' "$reveal" export cut --format openmetrics --textfile stays/job.prom
chmod 755 stays
cmp -s job.prom stays/job.prom || fail "a file that cannot be replaced has changed"

# --- a trace of one sample, or nearly: a line, and no invented number
mkdir one
"$collect" --output one/n01.h5 --node n01 --interval 1s --duration 1s --probes memory || fail "a trace of one sample"
"$reveal" report one >out 2>err || fail "a report of one sample: $(cat err)"
json one/report.json "r['verdict']['status'] == 'insufficient_data' and not r['episodes'] and all(f['kind'] == 'audit' for f in r['findings'])"
expect 0 - "$reveal" show one --all
expect 0 - "$reveal" show one --episodes
for format in csv parquet windows perfetto python; do
  "$reveal" export one --format $format >out 2>err
  status=$?
  [ $status = 0 ] || [ $status = 1 ] && [ "$(wc -l <err)" -le 1 ] || fail "export $format of one sample: $status $(cat err)"
done
expect 0 - "$reveal" export one --format openmetrics
grep -q 'verdict="insufficient_data"' out || fail "openmetrics of one sample: $(cat out)"

# --- two reports at once: each file is one report or the other
cp -r cut twice
"$reveal" report twice >out.1 2>err.1 &
"$reveal" report twice >out.2 2>err.2
status=$?
wait $! && [ $status = 0 ] || fail "two reports at once: $(cat err.1 err.2)"
json twice/report.json "r['schema'] == 'reveal.report/1' and r['report_id']"
python3 -c 'import sys, zlib; sys.stdout.buffer.write(zlib.decompress(sys.stdin.buffer.read()))' \
  <twice/n01.summary.json >summary.plain || fail "twice/n01.summary.json is not whole"
json summary.plain "r['schema'].startswith('reveal.summary/')"
[ "$(tail -c 8 twice/report.html)" = '</html>' ] || fail "half a page: $(tail -c 30 twice/report.html)"
[ "$(ls -A twice)" = "$(ls -A cut)" ] || fail "left over: $(ls -A twice)"

# --- the hour that is there twice: all times are UTC, wherever the reader is
mkdir autumn && cp job/n01.h5 autumn/
/usr/bin/python3 - <<'PY' || fail "a trace of the night of 25 October 2026"
import h5py
with h5py.File('autumn/n01.h5', 'r+') as trace:
    begin = 1792889994_000_000_000  # 00:59:54 UTC; in Berlin it becomes 02:00 again after 6 s
    shift = begin - int(trace.attrs['begin_utc_ns'])
    trace.attrs['begin_utc_ns'] = begin
    clock = trace['clock'][:]
    clock['utc_ns'] += shift
    trace['clock'][:] = clock
PY
TZ=UTC "$reveal" report autumn --no-history >here 2>/dev/null || fail "a report of that night"
grep -q '2026-10-25 00:59:5' here || fail "that night is not in the report: $(head -5 here)"
for zone in Europe/Berlin America/St_Johns; do
  for words in 'show autumn --all' 'export autumn --format csv --metrics mem.available' 'export autumn --format windows'; do
    TZ=UTC "$reveal" $words >here 2>&1
    TZ=$zone "$reveal" $words >there 2>&1
    cmp -s here there || fail "$words in $zone: $(diff here there | head -5)"
  done
done

# --- pruning: what is written can be recorded
mkdir short  # beside other work, the job of four seconds may have taken longer
"$collect" --output short/n01.h5 --duration 1s 2>err || fail "no short trace could be recorded: $(cat err)"
expect 1 "at least 50 are needed" "$reveal" prune short --out selected.metrics
expect 0 - "$reveal" prune cut --out selected.metrics
expect 0 - "$reveal" prune cut --out selected.metrics --only-moving --threshold 0.3 --json
json out "r['schema'] == 'reveal.prune/1' and 0 < r['channels_retained'] <= r['channels_moved'] and r['lines'] > 0"
expect 1 'no directory nowhere' "$reveal" prune nowhere --out x.metrics
expect 1 'No such file or directory' "$reveal" prune cut --out nowhere/x.metrics
"$collect" --output less.h5 --metrics selected.metrics --duration 1s 2>err || fail "what prune wrote is refused: $(cat err)"
/usr/bin/python3 - <<'PY' || fail "less.h5 does not hold less, and only what was selected"
import fnmatch, h5py
with open('selected.metrics') as lines:
    wanted = [line.split('#')[0].strip().split('/')[0] for line in lines if line.split('#')[0].strip()]
def metrics(path):
    found = set()
    with h5py.File(path) as trace:
        trace.visititems(lambda name, of: found.update(of['metric'].asstr()[:]) if name.endswith('_channels') else None)
    return found
less, all = metrics('less.h5'), metrics('job/n01.h5')
assert less and less < all, (less, all)
assert all >= less and {m for m in less if not m.startswith('self.')} <= set(wanted), less - set(wanted)
PY

# --- merging
expect 0 - "$reveal" merge job
expect 0 - "$reveal" merge job --pack --json
/usr/bin/python3 - <<'PY' || fail "job.h5 is not what h5py expects"
import h5py
with h5py.File('job/job.h5') as job, h5py.File('job/n01.h5') as trace:
    copied, own = job['nodes/n01/cpu/times'], trace['cpu/times']
    assert (copied[:] == own[:]).all()
    assert [s.name for s in copied.dims[1].values()] == ['/nodes/n01' + s.name for s in own.dims[1].values()]
PY

latin1=$(printf 'caf\351') # a name need not be UTF-8
mkdir "$latin1" && cp job/n01.h5 "$latin1"
expect 0 - "$reveal" merge "$latin1" --json
json out 'r["schema"] == "reveal.merge/1" and r["nodes"] == ["n01"]'

# --- a directory that cannot be written: the report is printed all the same
if [ "$(id -u)" != 0 ]; then
  chmod 500 job
  rm -f out
  "$reveal" report job >out 2>err
  [ $? = 1 ] && [ -s out ] || fail "an unwritable directory loses the report"
  chmod 700 job
fi

# --- compare: 0 not worse, 1 worse, and one that says that nobody knows
mkdir runs
run_of() { # run_of NAME SECONDS [MORE]: a report that was moved away from its traces
  mkdir -p "runs/$1"
  cat >"runs/$1/report.json" <<JSON
{"schema": "reveal.report/1", "verdict": {"status": "healthy", "sentence": ""}, "job": {"id": "$1", "command": "solver",
 "nodes": ["n01"], "begin": "2026-11-20T10:00:00Z", "end": "2026-11-20T10:01:40Z", "exit_code": 0, "ran_seconds": $2}${3:-}}
JSON
}
run_of a1 80.1; run_of a2 79.4; run_of a3 81.2
run_of b1 94.2; run_of b2 92.8; run_of b3 97.1
run_of c1 80.3 ', "findings": [{"id": "cpu.outsider", "title": "an outsider", "severity": "warning", "kind": "anomaly",
 "confidence": "likely", "subsystem": "cpu",
 "intervals": [{"begin": "2026-11-20T10:00:10Z", "end": "2026-11-20T10:00:25Z"}]}]'
expect 3 - "$reveal" compare runs/a1 runs/b1
grep -q 'spread between runs is not known' out || fail "compare invents an interval: $(cat out)"
expect 1 - "$reveal" compare --before runs/a1 runs/a2 runs/a3 --after runs/b1 runs/b2 runs/b3
grep -q '^SLOWER ' out || fail "compare: $(cat out)"
cp out lists
expect 1 - "$reveal" compare runs/a1,runs/a2,runs/a3 runs/b1,runs/b2,runs/b3
cmp -s out lists || fail "compare: lists with commas differ from --before and --after"
expect 0 - "$reveal" compare --before runs/a1 runs/a2 --after runs/a3 runs/c1
grep -q '^NO DIFFERENCE SHOWN ' out && grep -q 'appeared .*cpu.outsider' out || fail "compare: $(cat out)"
expect 0 - "$reveal" compare --json --before runs/b1 runs/b2 runs/b3 --after runs/a1 runs/a2 runs/c1/report.json
json out "r['schema'] == 'reveal.compare/1' and r['change'] == 'faster' and r['run_time']['interval']['high'] < 0"
json out "r['causes'][0]['change'] == 'appeared' and r['causes'][0]['share']['after'] == [0, 0, 15]"
expect 2 'hold the same run' "$reveal" compare runs/a1 runs/a1
expect 2 'give two directories' "$reveal" compare runs/a1
expect 2 'give two directories' "$reveal" compare runs/a1 runs/b1 --before runs/a2 --after runs/b2
expect 2 'no directory runs/nowhere' "$reveal" compare runs/a1 runs/nowhere
expect 2 '(NODE.h5 or NODE.h5.part) in empty' "$reveal" compare empty runs/a1
for run in reveal-first reveal-second; do
  mkdir $run
  printf '{"schema": "reveal.run/1", "run_id": "%s", "key": "k", "job": "99", "begin_utc_ns": 1700000000000000000}\n' $run >$run/run.json
done
expect 2 'job 99 has 2 directories' "$reveal" compare 99 runs/a1
expect 3 'job 99 has 2 directories' "$reveal" check 99
rm -r reveal-first reveal-second
if [ "$(id -u)" = 0 ]; then
  cp -r runs/a1 theirs
  chown -R 65534 theirs
  expect 2 'belongs to' "$reveal" try --from theirs --runs 2 -- true
  chmod 755 "$work"
  cp -r runs/b1 theirs_too
  chown -R 65534 theirs_too
  expect 3 - "$reveal" compare theirs theirs_too
  echo '{' >theirs_too/report.json
  expect 2 'report.json: not JSON' "$reveal" compare theirs theirs_too
fi

# --- try: no shell, the command's own failures, an exit status that answers
cat >count.sh <<'SH'
#!/bin/sh
echo "$SIDE $*" >>counted
exit "${STATUS:-0}"
SH
chmod 755 count.sh
"$reveal" try --with 'SIDE=with' --runs 2 --warmup 1 --json -- ./count.sh 'a b' '$(touch evil)' >out 2>err
[ $? -le 1 ] || fail "try: $(cat err)"
json out "r['schema'] == 'reveal.try/1' and len(r['with']) == len(r['without']) == 2 and r['line'] == 'SIDE=with'"
[ "$(tr '\n' , <counted)" = ' a b $(touch evil), a b $(touch evil),with a b $(touch evil),with a b $(touch evil), a b $(touch evil),' ] ||
  fail "not ABBA after a warm-up: $(cat counted)"
[ ! -e evil ] || fail "try ran a shell"
mkdir slow_bin fast_bin
printf '#!/bin/sh\nexit 3\n' >slow_bin/tool
printf '#!/bin/sh\nexit 0\n' >fast_bin/tool
chmod 755 slow_bin/tool fast_bin/tool
PATH=$PWD/slow_bin:$PATH "$reveal" try --with "PATH=$PWD/fast_bin:/bin" --runs 2 --warmup 0 -- tool >out 2>err
grep -q 'run 1 without the line ended with exit status 3' err || fail "try ignores the PATH of a side: $(cat err)"
PATH=$PWD/fast_bin:$PATH "$reveal" try --with "PATH=$PWD/slow_bin:/bin" --runs 2 --warmup 0 -- tool >out 2>err
grep -q 'run 1 with the line ended with exit status 3' err || fail "try ignores the PATH of a line: $(cat err)"
expect 2 'give the line to try' "$reveal" try -- true
expect 2 '; needs a shell' "$reveal" try --with 'A=1; touch evil' -- true
expect 2 'command is required' "$reveal" try --with A=1
expect 2 'no finding with a line to try' "$reveal" try --from runs/a1 -- true
expect 2 'cpu.outsider has no line that can be put before a command' "$reveal" try --from runs/c1 --finding cpu.outsider -- true
"$reveal" try --with STATUS=3 --runs 2 -- ./count.sh >out 2>err
[ $? = 2 ] && grep -q 'run 1 with the line ended with exit status 3' err || fail "try hides a failure: $(cat err)"
"$reveal" try --with ./nowhere --runs 2 -- true >out 2>err
[ $? = 2 ] && grep -q 'nowhere: No such file' err || fail "try: $(cat err)"
printf '#!/bin/sh\nsleep 0.2\n[ "$FAST" ] || sleep 3\n' >slow.sh
chmod 755 slow.sh
printf '#!/bin/bash\n#SBATCH -N 1\nsrun ./slow.sh --all\n' >job.sh
cp job.sh job.before
for _ in 1 2 3; do # a machine that stood still for seconds meanwhile shows no effect
  "$reveal" try --with 'export FAST=1' --runs 2 --warmup 0 --script job.sh -- ./slow.sh >out 2>err
  grep -q '^FASTER ' out && break
done
grep -q '^FASTER ' out || fail "try does not see 3 s of 3.2: $(cat out err)"
sed -n '/^--- /,$p' out >fix.diff
cmp -s job.sh job.before || fail "try changed the script"
if command -v patch >/dev/null; then
  patch -s job.sh fix.diff || fail "patch refuses: $(cat fix.diff)"
  grep -qx 'export FAST=1' job.sh && bash -n job.sh || fail "the patched script: $(cat job.sh)"
fi
"$reveal" try --with A=1 --runs 2 --warmup 0 -- sh -c 'trap "exit 4" TERM; kill -TERM $PPID; while :; do sleep 0.01; done' >out 2>err
[ $? = 143 ] && grep -q 'stopped' out || fail "try does not stop on a signal: $(cat out err)"

# --- earlier runs: two of the same command. Root has no history, so a test run by root becomes somebody else for it.
export XDG_STATE_HOME=$work/state
user=() theirs=$reveal
if [ "$(id -u)" = 0 ]; then
  cp "$reveal" for-all && theirs=$work/for-all # root's own clone may be where nobody else can look
  expect 0 - "$reveal" report job
  json job/report.json "r['history'] is None and 'root' in r['history_reason']"
  expect 1 'lists the job directories in a folder' "$reveal" list
  user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
  chmod 755 "$work"
fi
mkdir -p past/first past/second state
cp job/n01.h5 past/first/
"$collect" --output past/second/n01.h5 --node n01 --job pid:$$ --run-key name:test --duration 4s || fail "no second trace"
touch out err
[ ${#user[@]} = 0 ] || chown -R 65534:65534 past state
if "${user[@]}" "$theirs" --version >/dev/null 2>&1; then
  expect 0 - "${user[@]}" "$theirs" report past/first
  json past/first/report.json "r['history'] is None and 'no earlier run' in r['history_reason']"
  json past/first/run.json "r['schema'] == 'reveal.run/1' and not r['accepted'] and 'too little' in r['why_not']"
  expect 0 - "${user[@]}" "$theirs" report past/second
  json past/second/report.json "r['history']['status'] == 'too_few_runs' and r['history']['runs'] == 1"
  grep -q '1 earlier run matches' past/second/report.txt || fail "report.txt does not say how many runs"
  [ -s state/reveal/history.sqlite ] || fail "no index of earlier runs"
  echo 'this has never been a database, and is too long to be an empty one' >state/reveal/history.sqlite
  expect 0 'was damaged and has been rebuilt' "${user[@]}" "$theirs" report past/second
  json past/second/report.json "r['history']['runs'] == 1"
  expect 0 - "${user[@]}" "$theirs" report past/second --no-history
  json past/second/report.json "r['history'] is None and '--no-history' in r['history_reason']"
  expect 0 - "${user[@]}" env -u XDG_STATE_HOME HOME=/nowhere "$theirs" report past/second
  json past/second/report.json "r['history'] is None and 'no home directory' in r['history_reason']"
  expect 0 - "${user[@]}" "$theirs" list
  [ "$(grep -c ' UTC  ' out)" = 2 ] && grep -q ' 1 node, ran [0-9.]* s$' out || fail "list: $(cat out)"
  [ "$(grep -n 'past/second$' out | cut -d: -f1)" -lt "$(grep -n 'past/first$' out | cut -d: -f1)" ] ||
    fail "list does not begin with the newest run: $(cat out)"
  cp out list.txt
  expect 0 - "${user[@]}" "$theirs" list past
  cmp -s out list.txt || fail "list of a folder: $(cat out)"
  expect 0 - "${user[@]}" "$theirs" list --limit 1 --json
  json out "r['schema'] == 'reveal.list/1' and len(r['runs']) == 1 and r['runs'][0]['directory'].endswith('past/second')"
  json out "r['runs'][0]['exists'] and r['runs'][0]['nodes'] == 1 and r['runs'][0]['begin_utc'].endswith('Z')"
  expect 0 - "${user[@]}" "$theirs" list --name nosuch
  grep -qx 'no run matches these options' out || fail "list --name: $(cat out)"
  mkdir bare && expect 0 - "${user[@]}" "$theirs" list bare
  grep -qx "no job directory with a report in bare" out || fail "list of an empty folder: $(cat out)"
  expect 1 'no rule "cpu.nosuch"' "${user[@]}" "$theirs" list --finding cpu.nosuch
  expect 1 'no such folder' "${user[@]}" "$theirs" list nowhere
  mv past/first past/moved
  expect 0 - "${user[@]}" "$theirs" list
  grep -q 'past/first (removed)$' out || fail "list does not say what is gone: $(cat out)"
  mv past/moved past/first
  printf '[report]\nhistory = false\n' >no-history.conf
  expect 0 - "${user[@]}" "$theirs" report past/second --config no-history.conf
  json past/second/report.json "r['history'] is None and 'is off' in r['history_reason']"
else
  echo "earlier runs: not tested, because the programs cannot be run as another user than root"
fi

[ $failures = 0 ] && echo "reveal: all as the contract says"
exit $((failures > 0))
