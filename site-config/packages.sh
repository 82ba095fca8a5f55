# Sourced by quickstart.sh and tests/run.sh: which packages of packages.txt are missing, and installing them.
# Never starts or restarts a service.

missing_packages() {  # missing_packages build [test]: one name per line
  local table="$1" purpose name
  shift
  for purpose in "$@"; do
    while read -r name; do
      dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || echo "$name"
    done < <(awk -v p="$purpose" '$1 == p { print $2 }' "$table")
  done
}

install_packages() {  # install_packages NAME...; false when nobody here may install
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || return 1
    as_root=(sudo)
  fi
  # needrestart and maintainer scripts must leave the services of a running node alone.
  local quiet=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l RUNLEVEL=1)
  # Without settings, Postfix does not start, now or later.
  [[ " $* " != *" postfix "* ]] ||
    echo "postfix postfix/main_mailer_type select No configuration" | "${as_root[@]}" debconf-set-selections
  "${as_root[@]}" "${quiet[@]}" apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1 && return 0
  "${as_root[@]}" apt-get update -qq && "${as_root[@]}" "${quiet[@]}" apt-get install -y -qq --no-install-recommends "$@"
}
