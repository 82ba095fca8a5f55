#!/usr/bin/env bash
# A real compile job: builds a set of C++ files over and over with two compilers at a time.
# Usage: compile.sh SECONDS [JOBS]
set -eu
seconds="${1:-120}" jobs="${2:-2}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for i in $(seq 1 24); do
  cat >"$dir/unit$i.cpp" <<EOF
#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>
template <int N> struct Table { static std::map<std::string, int> make() {
  auto t = Table<N - 1>::make(); t["k" + std::to_string(N)] = N; return t; } };
template <> struct Table<0> { static std::map<std::string, int> make() { return {}; } };
int unit$i(const std::string& text) {
  std::regex pattern("([a-z]+)-$i-([0-9]+)");
  std::vector<std::string> words;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) words.push_back((*at)[1]);
  std::sort(words.begin(), words.end());
  return static_cast<int>(words.size()) + static_cast<int>(Table<$((20 + i * 2))>::make().size());
}
EOF
done
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
  seq 1 24 | shuf | xargs -P "$jobs" -I{} sh -c '[ "$(date +%s)" -lt "$2" ] && g++ -O2 -c "$1/unit{}.cpp" -o "$1/unit{}.o" || true' \
    _ "$dir" $(($(date +%s) + end - SECONDS))
  g++ -shared -o "$dir/all.so" "$dir"/*.o 2>/dev/null || true
done
