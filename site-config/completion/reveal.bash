# bash completion for reveal, reveal-run and reveal-collect: it offers what --help prints, and the rules, probes and
# settings that reveal lists.

_reveal() {
  local program="$1" word="$2" before="$3" offered='' listed='' i
  [ "$word" = = ] && word=
  [ "$before" = = ] && before="${COMP_WORDS[COMP_CWORD - 2]}"  # bash splits --color=never
  COMPREPLY=()

  # Behind "--" stands a command of the user's.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [ "${COMP_WORDS[i]}" = -- ] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    elif [ "$COMP_CWORD" -eq $((i + 1)) ]; then
      mapfile -t COMPREPLY < <(compgen -c -- "$word")
    fi
    return
  done

  local -a command=("$program")
  [ "${program##*/}" = reveal ] && [ "$COMP_CWORD" -gt 1 ] && [[ ${COMP_WORDS[1]} != -* ]] && command+=("${COMP_WORDS[1]}")
  if [[ $word == -* ]]; then
    offered="$("${command[@]}" --help 2>/dev/null | sed -n 's/^  \(-[a-zA-Z],\)\{0,1\}\(--[a-z-]*\).*/\2/p')"
  elif [[ $before =~ ^--[a-z-]+$ ]]; then  # of "--color WHEN:{auto,always,never}": auto always never
    offered="$("${command[@]}" --help 2>/dev/null |
      sed -n "s/^  \(-[a-zA-Z],\)\{0,1\}$before [^ ]*:{\([^}]*\)}.*/\2/p" | tr ',' ' ')"
  elif [ "${program##*/}" = reveal ]; then
    case "$COMP_CWORD:${COMP_WORDS[1]}" in
      1:* | 2:help) offered="$("$program" --help 2>/dev/null | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\)  .*/\1/p')" ;;
      2:rules | 2:backtest | 3:feedback) listed=rules ;;
      2:probes) listed=probes ;;
      2:config) offered="$("$program" config --all 2>/dev/null |
        awk '/^\[/ { gsub(/["[\]]/, ""); section = $0 } / = / { print section "." $1 }')" ;;
    esac
  fi
  [ "$before" != --finding ] || listed=rules
  [ -z "$listed" ] || [[ $word == -* ]] || offered="$("$program" "$listed" 2>/dev/null | sed -n 's/^\([a-z0-9_.]*\)  .*/\1/p')"
  mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
}

complete -o default -F _reveal reveal reveal-run reveal-collect
