#!/bin/bash
# Ten workloads as a new user would start them: what was typed, what the end of the run said, how long the page is.
#   bench/lab/first_impressions.sh BUILD/bin [NUMBER ...]      as an ordinary user; eight minutes for all ten
set -u
(($(id -u))) || { echo "run it as an ordinary user: root keeps no history" >&2; exit 2; }
programs=$(readlink -f "${1:?folder with reveal and reveal-run}")
shift
wanted=" ${*:-1 2 3 4 5 6 7 8 9 10} "
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null; rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state PATH=$programs:$PATH
cd "$work" || exit 2

cat > small.py <<'EOF'
import time
time.sleep(36)
EOF
cat > other.py <<'EOF'
import time
held = bytearray(400 << 20)
time.sleep(75)
EOF
cat > leak.py <<'EOF'
import time
held = []
for _ in range(45):
    held.append(bytearray(30 << 20))
    time.sleep(1)
EOF
cat > unit.cpp <<'EOF'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main() { std::map<std::string, std::regex> m; std::cout << m.size(); }
EOF
cat > build.sh <<'EOF'
end=$((SECONDS + 40))
while ((SECONDS < end)); do c++ -O2 -c unit.cpp -o /dev/null; done
EOF

# title, command: runs it and prints what came out on standard error, where the report is.
show() {
  local title=$1 before=$SECONDS status directory
  shift
  touch started
  "$@" > out 2> err
  status=$?
  directory=$(find . -maxdepth 1 -name 'reveal-*' -newer started | head -1)
  printf '\n## %s\n   $ %s\n   exit status %d, %d s, %d lines' "$title" "$*" "$status" $((SECONDS - before)) "$(wc -l < err)"
  [[ -n $directory ]] && printf ', page %d lines' "$(reveal show "$directory" 2> /dev/null | wc -l)"
  printf '\n'
  sed 's/^/   | /' err
}
run() { [[ $wanted == *" $1 "* ]]; }
busy() { timeout "$1" sh -c 'while :; do :; done'; }
export -f busy

run 1 && show "nothing" reveal-run -- true
run 2 && show "too short" reveal-run -- sleep 3
run 3 && show "idle" reveal-run -- sleep 45
run 4 && show "one busy loop" reveal-run -- bash -c 'busy 45'
if run 5; then
  for ((i = 0; i < $(nproc); ++i)); do busy 60 & done
  show "a busy loop beside others'" reveal-run -- bash -c 'busy 45'
  wait
fi
run 6 && show "a compiler" reveal-run -- bash build.sh
run 7 && show "a leak" reveal-run -- python3 leak.py
run 8 && show "it fails" reveal-run -- sh -c 'sleep 36; exit 7'
run 9 && show "it crashes" reveal-run -- sh -c 'sleep 36; kill -ABRT $$'
if run 10; then
  for ((i = 0; i < 3; ++i)); do reveal-run --quiet -- python3 small.py 2> /dev/null; done
  show "one script three times, then another" reveal-run -- python3 other.py
fi
exit 0
