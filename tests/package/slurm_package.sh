#!/usr/bin/env bash
# The Debian packages where nothing else of reveal is: a minimal Debian in a directory, the packages installed there by
# apt with what they depend on, the whole Slurm suite of the integration tests against the installed files, and the
# removal of the plugin, which must leave Slurm as it was. Then the RPM packages in the same folder, if there are any, with
# their scripts. Says what lintian says, if it is installed.
#
#   [SUITE=trixie] slurm_package.sh PACKAGES [DIR]      PACKAGES: the folder of the packages; needs root: mmdebstrap,
#                                        chroot, mounts in a mount namespace of its own. SUITE: another release of Debian
#                                        than 12, with another Slurm; where PACKAGES has none, they are built there first
#
# Opt-in, neither part of ctest nor of continuous integration: the first run downloads Debian packages by the apt sources
# of this machine, which must be a Debian 12 itself; a further one with the same DIR takes them from there. Changes
# nothing outside DIR but /sys/fs/cgroup, where Slurm has its folders while it runs.
#
#   cmake -S . -B build/package -DCMAKE_INSTALL_PREFIX=/usr -DREVEAL_TESTS=OFF && cmake --build build/package
#   (cd build/package && cpack -G DEB && cpack -G RPM)
#   bash tests/package/slurm_package.sh build/package /var/tmp/package
#
# Exit status: 0 all passed, 1 some failed, 77 something is missing here.
set -euo pipefail
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
source=$(cd "$(dirname "$0")/../.." && pwd)
build_limit=1800 # seconds

skip() {
  echo "skipped: $*"
  exit 77
}
[ $# -ge 1 ] || { sed -n '/^#   .* slurm_package/s/^# *//p' "$0" >&2 && exit 2; }
suite=${SUITE:-bookworm}
[ "$(id -u)" = 0 ] || skip "needs root to build a Debian and to run slurmd in it"
for program in mmdebstrap unshare chroot; do
  command -v $program >/dev/null || skip "$program is not installed"
done
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || skip "this machine's apt sources are not those of Debian 12"
for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do [ ! -s $sources ] || break; done
[ $suite = bookworm ] || mkdir -p "$1"
debs=("$(realpath "$1")"/reveal*.deb) rpms=("$(realpath "$1")"/reveal*.rpm)
[ -f "${debs[0]}" ] || [ $suite != bookworm ] || skip "$1 has no packages of reveal"
# In a mount namespace of its own: whatever happens, no mount is left.
[ "${IN_NAMESPACE:-}" = yes ] || IN_NAMESPACE=yes exec unshare --mount --propagation private bash "$0" "$@"

if [ $# -ge 2 ]; then
  mkdir -p "$2"
  dir=$(cd "$2" && pwd -P)
else
  dir=$(mktemp -d)
fi
remove_system() { # remove_system ROOT
  local mounted
  for mounted in proc sys dev; do umount -R -l "$1/$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$1" || true
}
cleanup() {
  remove_system "$dir/root"
  remove_system "$dir/builder"
  [ $# -eq 0 ] || rm -rf --one-file-system "$dir"
}
if [ $# -ge 2 ]; then trap cleanup EXIT; else trap 'cleanup all' EXIT; fi

# As on a node: Slurm, and what the suite itself needs. Nothing of what reveal needs.
packages=(munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins procps bats python3 gcc libc6-dev hostname
  util-linux msmtp python3-aiosmtpd ca-certificates)
include=$(printf '%s\n' "${packages[@]}" | sort | paste -sd,)
base=$dir/base-${SUITE:+$SUITE-}$(echo "$include" | cksum | cut -d' ' -f1).tar
its_sources=$dir/$(basename "$sources")
sed "s/bookworm/$suite/g" "$sources" >"$its_sources"
if [ ! -s "$base" ]; then
  echo "a minimal Debian ($suite) with Slurm"
  timeout $build_limit mmdebstrap --quiet --mode=root --variant=apt --format=tar --include="$include" \
    $suite "$dir/base.new" "$its_sources"
  mv "$dir/base.new" "$base"
fi
new_system() { # new_system ROOT: with Slurm, and the sources of this machine
  rm -rf --one-file-system "$1"
  mkdir "$1"
  tar -C "$1" -xf "$base"
  cp /etc/resolv.conf /etc/hosts "$1/etc/"
  hostname >"$1/etc/hostname"
  cp "$its_sources" "$1/etc/apt/"$([ "${sources##*.}" = list ] || echo sources.list.d/)
  [ ! -s /etc/ssl/certs/ca-certificates.crt ] || cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/" # of a mirror of one's own
  [ ! -d /etc/apt/apt.conf.d ] || cp -r /etc/apt/apt.conf.d/. "$1/etc/apt/apt.conf.d/"
  mount --bind /proc "$1/proc"
  mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  mkdir -p "$1/reveal-source" "$1/run/lock"
}
in_system() { # in_system ROOT COMMAND
  chroot "$1" sh -c "$2" >>"$dir/apt.log" 2>&1 || {
    tail -n 20 "$dir/apt.log"
    exit 1
  }
}
if [ ! -f "${debs[0]}" ]; then # for its Slurm and its libraries
  echo "the packages, built in $suite"
  new_system "$dir/builder"
  tar -C "$source" --exclude=./build --exclude=./.git -cf - . | tar -C "$dir/builder/reveal-source" -xf -
  in_system "$dir/builder" "apt-get update && apt-get install -y --no-install-recommends dpkg-dev file \
    $(sed -n 's/^build *//p' "$source/site-config/packages.txt" | xargs)"
  in_system "$dir/builder" 'cmake -G Ninja -S /reveal-source -B /reveal-build -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_BUILD_TYPE=Release -DREVEAL_TESTS=OFF && ninja -C /reveal-build && cd /reveal-build && cpack -G DEB'
  cp "$dir"/builder/reveal-build/reveal*.deb "$1/"
  remove_system "$dir/builder"
  debs=("$(realpath "$1")"/reveal*.deb)
fi
root=$dir/root
new_system "$root"
cp -r "$source/tests" "$root/reveal-source/"
mkdir "$root/reveal-packages"
cp "${debs[@]}" "$root/reveal-packages/"
if command -v lintian >/dev/null; then lintian --allow-root --fail-on error "${debs[@]}"; fi

apt() { in_system "$root" "$*"; }
echo "the collector alone, installed by apt"
apt apt-get update
apt 'apt-get install -y --no-install-recommends /reveal-packages/reveal-collector_*.deb'
chroot "$root" reveal-run --output /tmp/run -- true
chroot "$root" reveal-collect --version
echo "in the namespaces of a container"
unshare --pid --fork --kill-child --mount-proc="$root/proc" --net --uts --ipc --cgroup \
  chroot "$root" reveal-run --output /tmp/contained -- true

echo "all packages, installed by apt"
apt 'apt-get install -y /reveal-packages/*.deb'
chroot "$root" sh -c 'dpkg -L reveal reveal-collector reveal-slurm; reveal --version; ldd /usr/bin/reveal | grep "not found"' || true
plugin=$(chroot "$root" dpkg -L reveal-slurm | grep spank_reveal.so)
stub=$(chroot "$root" dpkg -L reveal-slurm-stub | grep spank_reveal_stub.so)

chroot "$root" env -i PATH="$PATH" LC_ALL=C.UTF-8 HOME=/root REVEAL_BIN=/usr/bin REVEAL_PLUGIN="$plugin" \
  REVEAL_STUB="$stub" REVEAL_JANITOR=/usr/libexec/reveal/spool-janitor \
  REVEAL_BUILD=/nonexistent REVEAL_SOURCE=/reveal-source bash /reveal-source/tests/integration/slurm_test.sh

echo "removed, installed again, purged:"
apt dpkg --remove reveal-slurm
[ ! -e "$root/etc/reveal/plugstack.conf" ] # Slurm would complain about a plugin that is gone
apt 'dpkg -i /reveal-packages/reveal-slurm_*.deb'
[ -e "$root/etc/reveal/plugstack.conf" ]
apt dpkg --purge reveal-slurm-stub reveal-slurm reveal reveal-collector
judge_left() { # numpy has a "reveal", too
  left=$(chroot "$root" find / -xdev -name '*reveal*' ! -path '/reveal*' ! -path '/proc/*' ! -path '/sys/*' ! -path '/tmp/*' ! -name 'reveal-test*' |
    while read -r file; do chroot "$root" dpkg -S "$file" >/dev/null 2>&1 || echo "$file"; done)
  echo "${left:-nothing is left}"
  [ -z "$left" ]
}
judge_left

# Their libraries are here, but as packages of Debian, which rpm does not know: --nodeps.
if [ ! -f "${rpms[0]}" ] || ! command -v rpm >/dev/null; then
  echo "RPM packages were not tried: $1 has none, or rpm is not installed"
  exit
fi
echo "the RPM packages, with their scripts"
in_rpm() { rpm --root "$root" --nodeps "$@"; }
chroot "$root" sh -c 'command -v systemd-tmpfiles' >/dev/null || apt apt-get install -y systemd-standalone-tmpfiles
in_rpm -i "${rpms[@]}"
chroot "$root" reveal-run --output /tmp/rpm -- true
[ "$(stat -c %a "$root/var/spool/reveal")" = 711 ] || { echo "the script of reveal-slurm has made no spool" && exit 1; }
echo "# the site's line" >>"$root/etc/reveal/reveal.conf"
in_rpm -U --replacepkgs "${rpms[@]}"
grep -q "the site's line" "$root/etc/reveal/reveal.conf" || { echo "the site's reveal.conf is lost" && exit 1; }
mapfile -t names < <(rpm -qp --qf '%{NAME}\n' "${rpms[@]}")
in_rpm -e "${names[@]}"
rm -r "$root/var/spool/reveal" "$root/etc/reveal" # as the README says, and what rpm has saved of the site's
judge_left
