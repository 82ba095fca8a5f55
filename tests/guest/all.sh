#!/usr/bin/env bash
# All guests, one after the other, with packages of this source: the last part of tests/run.sh --lab. Hours, at most five
# by the limits of each guest, as root, on a quiet machine.
#
#   all.sh [DIR]      DIR: of the image of Debian that most guests share; the first run of node.sh builds it (see there).
#                     slurm_systemd.sh has one of its own, for which its first run downloads 300 MB
#
# Exit status: 0 all as expected, 1 not, 77 none of them could run.
set -uo pipefail
cd "$(dirname "$0")/../.."
dir=${1:-/var/tmp/reveal-guests}
build=${REVEAL_BUILD_ROOT:-build}/package

skip() {
  echo "guests: skipped: $*"
  exit 77
}
[ "$(id -u)" = 0 ] || skip "they need root"
command -v qemu-system-x86_64 >/dev/null || skip "qemu-system-x86_64 is not installed"
ls "$dir"/base-*.tar >/dev/null 2>&1 || skip "there is no image of Debian in $dir: bash tests/guest/node.sh PACKAGES $dir builds it"

rm -f "$build"/reveal*.deb
{
  cmake -G Ninja -S . -B "$build" -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_BUILD_TYPE=Release -DREVEAL_TESTS=OFF &&
    ninja -C "$build" && (cd "$build" && cpack -G DEB)
} >"$build.log" 2>&1 || { tail -n 30 "$build.log" && exit 1; }

guests=(node nodes hints fabric memory stack slurm_systemd)
ran=0 failed=0
for guest in "${guests[@]}"; do
  echo "== $guest"
  status=0
  bash "tests/guest/$guest.sh" "$build" "$dir" || status=$?
  case $status in
    0) ran=$((ran + 1)) ;;
    77) ;; # it said why
    *) ran=$((ran + 1)) failed=$((failed + 1)) ;;
  esac
done
echo "guests: $ran of ${#guests[@]} ran, $failed failed"
[ $ran -gt 0 ] || exit 77
[ $failed = 0 ]
