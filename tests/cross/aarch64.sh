#!/usr/bin/env bash
# Cross-compiles what measures (core/, hdf5schema/) for aarch64 and runs its unit tests in user-mode emulation. Opt-in:
# Debian's packages for arm64 are unpacked into a folder of their own (nothing of them is installed; 700 MB).
#
#   aarch64.sh [DIR]      DIR keeps Debian's files and the build for the next time (default build/aarch64)
#
#   apt-get install g++-aarch64-linux-gnu qemu-user-static mmdebstrap
#
# Exit status: of the tests; 77 if something is missing here.
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "$0")/../.."
skip() {
  echo "skipped: $*"
  exit 77
}
for program in aarch64-linux-gnu-g++ qemu-aarch64-static mmdebstrap; do
  command -v $program >/dev/null || skip "$program is not installed"
done
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || skip "this machine's apt sources are not those of Debian 12"
for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do [ ! -s $sources ] || break; done

mkdir -p "${1:-build/aarch64}"
dir=$(realpath "${1:-build/aarch64}")
libraries=$(awk '$1 == "build" && $2 ~ /^lib|dev$/ { print $2 }' site-config/packages.txt | paste -sd,)
if [ ! -e "$dir/root.$(echo "$libraries" | cksum | cut -d' ' -f1)" ]; then
  rm -rf "$dir/root"
  mmdebstrap --quiet --mode=root --variant=extract --architectures=arm64 \
    --include="$libraries,libgtest-dev,libc6-dev,libstdc++-12-dev" bookworm "$dir/root" "$sources"
  # A compiler looks for absolute links in its own root, not in this one.
  (cd "$dir/root" && find usr/lib -type l -lname '/*' -printf '%p %l\n') | while read -r link target; do
    ln -sfn "$dir/root$target" "$dir/root/$link"
  done
  touch "$dir/root.$(echo "$libraries" | cksum | cut -d' ' -f1)"
fi

export PKG_CONFIG_SYSROOT_DIR=$dir/root
export PKG_CONFIG_LIBDIR=$dir/root/usr/lib/aarch64-linux-gnu/pkgconfig:$dir/root/usr/share/pkgconfig
cmake -G Ninja -S . -B "$dir/build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_SYSROOT="$dir/root" \
  -DCMAKE_TOOLCHAIN_FILE=tests/cross/aarch64.cmake >"$dir/cmake.log" 2>&1 || { cat "$dir/cmake.log"; exit 1; }
ninja -C "$dir/build" test_core test_hdf5schema reveal-collect
file "$dir/build/bin/reveal-collect" 2>/dev/null || true
export REVEAL_EMULATED=qemu-user
status=0
for program in test_hdf5schema test_core; do
  qemu-aarch64-static -L "$dir/root" "$dir/build/bin/$program" --gtest_brief=1 || status=1
done
exit $status
