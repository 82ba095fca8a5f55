#!/bin/bash
# What `cmake --install` lays below a prefix: programs that run there, a manual page of every program and command, and
# what the shells offer when the tab key is pressed.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

# A build directory may belong to another user, and installing writes into it.
[ -w "$REVEAL_BUILD" ] || { echo "skipped: $REVEAL_BUILD is not writable"; exit 77; }
cmake --install "$REVEAL_BUILD" --prefix "$prefix" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for program in reveal reveal-run reveal-collect; do
  "$prefix/bin/$program" --version >/dev/null || fail "$program does not run"
done

# --- manual pages
commands=$("$prefix/bin/reveal" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\)  .*/\1/p' | grep -v '^help$')
if ! command -v help2man >/dev/null; then
  echo "help2man is not installed: manual pages were not tried"
else
  pages=(man1/reveal.1 man1/reveal-run.1 man1/reveal-collect.1 man5/reveal.conf.5 man5/reveal.h5.5 man5/reveal.report.5
    man5/reveal.status.5 man5/reveal.run.5 man5/reveal.alerts.5 man5/reveal.ledger.5 man7/reveal-rules.7 man7/reveal-probes.7)
  [ ! -e "$REVEAL_BUILD/lib/spank_reveal.so" ] || pages+=(man8/spank_reveal.8)
  for command in $commands; do pages+=("man1/reveal-$command.1"); done
  for page in "${pages[@]}"; do
    text=$(zcat "$prefix/share/man/$page.gz" 2>/dev/null) || { fail "no manual page $page"; continue; }
    name=$(basename "${page%.*}")
    grep -q "^\.TH ${name^^} " <<<"$text" || fail "$page has another title"
    grep -q "^$name \\\\- " <<<"$text" || fail "$page has no name that apropos finds"
    if command -v groff >/dev/null; then
      said=$(groff -man -ww -z <<<"$text" 2>&1)
      [ -z "$said" ] || fail "$page: $said"
    fi
    if command -v mandoc >/dev/null; then  # it does not know the dates of help2man
      said=$(mandoc -Tlint -W warning <<<"$text" | grep -v 'date, using')
      [ -z "$said" ] || fail "$page: $said"
    fi
  done
  # Formats and rules: from the tables that print them.
  rules=$(zcat "$prefix/share/man/man7/reveal-rules.7.gz")
  for id in $("$prefix/bin/reveal" rules --json | /usr/bin/python3 -c 'import json, sys; [print(r["id"]) for r in json.load(sys.stdin)["rules"]]'); do
    grep -qxF ".SS $id" <<<"$rules" || fail "reveal-rules.7 lacks the rule $id"
  done
  probes=$(zcat "$prefix/share/man/man7/reveal-probes.7.gz")
  for name in $("$prefix/bin/reveal-collect" --list-probes --json | /usr/bin/python3 -c 'import json, sys; [print(p["name"]) for p in json.load(sys.stdin)]'); do
    grep -q "^$name\b" <<<"$probes" || fail "reveal-probes.7 lacks the probe $name"
  done
  format=$(zcat "$prefix/share/man/man5/reveal.h5.5.gz")
  grep -oE '^## .*' "$REVEAL_SOURCE/hdf5schema/README.md" | cut -c4- | while read -r heading; do
    grep -qF ".SH \"${heading^^}\"" <<<"$format" || echo "$heading"
  done >"$work/missing"
  [ ! -s "$work/missing" ] || fail "reveal.h5.5 lacks $(cat "$work/missing")"
  grep -qF '/memory/vmstat_base' <<<"$format" || fail "reveal.h5.5 lacks the layout of a trace"
  # Every schema has a page, except the result of a single command (its keys are words of its text) and what only reveal
  # itself reads.
  zcat "$prefix"/share/man/man5/*.gz >"$work/formats"
  results='backtest|bundle-settings|check|clean|compare|config|doctor|drill|feedback|list|mail|merge|prune|rules|score|try'
  for schema in $(grep -rhoE --include='*.h' --include='*.cpp' '"reveal\.[a-z-]+/[0-9]+"' "$REVEAL_SOURCE"/{core,postproc} |
    tr -d '"' | sort -u | grep -vE "^reveal\.($results|array-task|mailer|node|part|spooled-mail|summary)/"); do
    grep -qF "$schema" "$work/formats" || fail "no manual page has the format $schema"
  done
  # Every key of a report.
  zcat "$prefix/share/man/man5/reveal.report.5.gz" >"$work/reveal.report"
  /usr/bin/python3 - "$work/reveal.report" "$REVEAL_SOURCE"/tests/data/reports/*.json >"$work/missing" <<'END'
import json, re, sys
page = set(re.findall(r"\w+", open(sys.argv[1]).read().replace("\\-", "-")))
def keys(value, free=False):
    if isinstance(value, list):
        for one in value: yield from keys(one)
    elif isinstance(value, dict):
        for key, inside in value.items():
            if not free: yield key.removesuffix("_reason")
            yield from keys(inside, key in ("units", "omitted"))
print(" ".join(sorted({key for path in sys.argv[2:] for key in keys(json.load(open(path)))} - page)))
END
  [ -z "$(tr -d '\n' <"$work/missing")" ] || fail "reveal.report.5 lacks the keys $(cat "$work/missing")"
  zcat "$prefix/share/man/man1/reveal-show.1.gz" | grep -q 'reveal show reveal\\-4711 \\-\\-json\|finding cpu.outsider' ||
    fail "reveal-show.1 lacks the examples of reveal show --help"
  zcat "$prefix/share/man/man5/reveal.conf.5.gz" | grep -q 'interval = "100ms"' || fail "reveal.conf.5 lacks a setting"
fi

# --- timers
for unit in reveal-janitor reveal-digest reveal-mailer; do
  for kind in service timer; do
    [ -r "$prefix/lib/systemd/system/$unit.$kind" ] || fail "no $unit.$kind"
  done
done
# systemd.exec(5), NoNewPrivileges: with User=, each of these takes the setgid bit of Postfix' postdrop away.
sandbox='NoNewPrivileges|SystemCall[A-Za-z]*|RestrictAddressFamilies|RestrictNamespaces|RestrictRealtime|RestrictSUIDSGID'
sandbox="$sandbox|PrivateDevices|Protect(KernelTunables|KernelModules|KernelLogs|Clock|Hostname)|LockPersonality"
sandbox="$sandbox|MemoryDenyWriteExecute|DynamicUser"
said=$(grep -E "^($sandbox)=" "$prefix/lib/systemd/system/reveal-mailer.service") && fail "the mailer's sendmail has no setgid: $said"
if command -v systemd-analyze >/dev/null; then
  # The service names programs below the prefix of the configuration.
  for unit in reveal-digest reveal-mailer; do
    sed "s,/[^ ]*/bin/reveal ,$prefix/bin/reveal ,g" "$prefix/lib/systemd/system/$unit.service" >"$work/$unit.service"
    cp "$prefix/lib/systemd/system/$unit.timer" "$work"
  done
  sed "s,^ExecStart=[^ ]*,ExecStart=$prefix/libexec/reveal/spool-janitor," "$prefix/lib/systemd/system/reveal-janitor.service" >"$work/reveal-janitor.service"
  cp "$prefix/lib/systemd/system/reveal-janitor.timer" "$work"
  for unit in reveal-digest reveal-mailer reveal-janitor; do
    said=$(systemd-analyze verify "$work/$unit".{service,timer} 2>&1)
    [[ $said != *$unit* ]] || fail "systemd refuses $unit: $said"
  done
  # In tenths; 10 is a service without limits. The digest and the mailer run the site's mail program, the mailer as an
  # account for which most limits would take its setgid bit away.
  for limit in reveal-janitor:25 reveal-digest:75 reveal-mailer:90; do
    said=$(systemd-analyze security --offline=true --threshold="${limit#*:}" "$work/${limit%:*}.service" 2>&1) ||
      fail "${limit%:*} is more exposed than ${limit#*:} tenths: $(tail -n 2 <<<"$said")"
  done
fi

# --- completion
PATH=$prefix/bin:$PATH
folder=$prefix/share/bash-completion/completions
for program in reveal reveal-run reveal-collect; do [ -r "$folder/$program" ] || fail "bash would not find $folder/$program"; done
. "$folder/reveal"
mkdir -p "$work/jobs/reveal-4711" "$work/jobs/slurm.out.d"
cd "$work/jobs" || exit 1
bash_offers() {  # bash_offers "WORDS TYPED SO FAR": as bash would ask, the last word being typed
  local typed=$1
  read -ra COMP_WORDS <<<"$typed"
  [[ $typed != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _reveal "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
  echo "${COMPREPLY[*]}"
}
zsh_offers() { zsh -f "$REVEAL_SOURCE/tests/zsh_offers.zsh" "$prefix/share/zsh/site-functions" "$1" | paste -sd' '; }
offers() {  # offers "WORDS TYPED SO FAR" "WORDS EXPECTED": in these shells
  local typed=$1 expected=$2 shell said
  shift 2
  for shell in "${@:-${shells[@]}}"; do
    said=$("${shell}_offers" "$typed")
    [ "$said" = "$expected" ] || fail "$shell: \"$typed\" offers \"$said\" instead of \"$expected\""
  done
}
shells=(bash)
if command -v zsh >/dev/null; then shells+=(zsh); else echo "zsh is not installed: its completion was not tried"; fi
offers "reveal " "$(paste -sd' ' <<<"$commands") help"
offers "reveal sh" "show"
offers "reveal merge-" "merge-part"
offers "reveal show --fi" "--finding"
offers "reveal show --color " "auto always never"
offers "reveal show --color = n" "never" bash  # which splits --color=n
offers "reveal export --format py" "python"
offers "reveal help ex" "export"
offers "reveal rules cpu.outs" "cpu.outsider"
offers "reveal rules gpu.x" "gpu.xid"
offers "reveal feedback reveal-4711 cpu.outs" "cpu.outsider"
offers "reveal backtest cpu.outs" "cpu.outsider"
offers "reveal show --finding cpu.outs" "cpu.outsider"
offers "reveal list --finding cpu.outs" "cpu.outsider"
offers "reveal config run.interva" "run.interval"
offers "reveal config slurm.keep" "slurm.keep_days"
offers "reveal config rule.cpu.outsider.min_cp" "rule.cpu.outsider.min_cpu"
offers "reveal probes cpu_f" "cpu_frequency"
offers "reveal-run --rep" "--report-limit"
offers "reveal-run -- reveal-col" "reveal-collect"
offers "reveal-collect --list" "--list-probes"
offers "reveal show rev" "" bash  # complete -o default offers files
[ "${#shells[@]}" = 1 ] || offers "reveal show rev" "reveal-4711" zsh
# A program without these lists: no word is offered, and nothing is printed into the line that is typed.
mkdir "$work/old"
printf '#!/bin/sh\necho "reveal: unknown command" >&2\nexit 2\n' >"$work/old/reveal"
chmod 755 "$work/old/reveal"
PATH=$work/old:$PATH
for typed in "reveal rules " "reveal config " "reveal feedback reveal-4711 " "reveal backtest no"; do
  said=$(bash_offers "$typed" 2>&1)
  [ -z "$said" ] || fail "bash: \"$typed\" of an old program offers \"$said\""
  [ "${#shells[@]}" = 1 ] || said=$(zsh_offers "$typed" 2>&1)
  [ -z "$said" ] || fail "zsh: \"$typed\" of an old program offers \"$said\""
done

exit $((failures > 0))
