#!/usr/bin/zsh -f
# Prints the completions, one a line, that an interactive zsh offers when the tab key is pressed behind these words:
#   zsh -f zsh_offers.zsh FOLDER-OF-COMPLETION-FUNCTIONS 'reveal sho'
zmodload zsh/zpty
setup=$(mktemp)
cat > $setup <<'END'
PROMPT=
autoload -Uz compinit
compinit -D -u
bindkey '^I' complete-word
zstyle ':completion:*' list-grouped false
mark() { print -r - $'\0' }
compprefuncs=(mark)
comppostfuncs=(mark exit)
# Functions add their matches with compadd. With -O, -A or -D it fills arrays and adds nothing.
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a __added  # -a takes the names of arrays: this one must hide none
  builtin compadd -A __added "$@"
  (( $#__added )) && print -rl - $__added
}
print ready
END
zpty typist "zsh -f -i"
zpty -w typist "fpath=(${(q)1} \$fpath); source $setup"
while zpty -r typist line && [[ $line != ready* ]]; do :; done
rm -f $setup
zpty -w -n typist "$2"$'\t'
inside=0
while zpty -r typist line; do
  line=${line//[$'\r\n']/}
  if [[ $line == *$'\0'* ]]; then
    (( inside++ )) && break
  elif (( inside )) && [[ -n $line ]]; then
    print -r - $line
  fi
done
