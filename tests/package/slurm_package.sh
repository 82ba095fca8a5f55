#!/usr/bin/env bash
# The Debian packages where nothing else of reveal is: a minimal Debian 12 in a directory, the packages installed there by
# apt with what they depend on, the whole Slurm suite of the integration tests against the installed files, and the
# removal of the plugin, which must leave Slurm as it was. Then the RPM packages in the same folder, if there are any, with
# their scripts. Says what lintian says, if it is installed.
#
#   slurm_package.sh PACKAGES [DIR]      PACKAGES: the folder of the packages; needs root: mmdebstrap, chroot, mounts in a
#                                        mount namespace of its own
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
[ $# -ge 1 ] || { sed -n '/^#   slurm_package/s/^# *//p' "$0" >&2 && exit 2; }
[ "$(id -u)" = 0 ] || skip "needs root to build a Debian and to run slurmd in it"
for program in mmdebstrap unshare chroot; do
  command -v $program >/dev/null || skip "$program is not installed"
done
[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || skip "this machine's apt sources are not those of Debian 12"
for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do [ ! -s $sources ] || break; done
debs=("$(realpath "$1")"/reveal*.deb) rpms=("$(realpath "$1")"/reveal*.rpm)
[ -f "${debs[0]}" ] || skip "$1 has no packages of reveal"
# In a mount namespace of its own: whatever happens, no mount is left.
[ "${IN_NAMESPACE:-}" = yes ] || IN_NAMESPACE=yes exec unshare --mount --propagation private bash "$0" "$@"

if [ $# -ge 2 ]; then
  mkdir -p "$2"
  dir=$(cd "$2" && pwd -P)
else
  dir=$(mktemp -d)
fi
cleanup() {
  for mounted in proc sys dev; do umount -R -l "$dir/root/$mounted" 2>/dev/null || true; done
  rm -rf --one-file-system "$dir/root" || true
  [ $# -eq 0 ] || rm -rf --one-file-system "$dir"
}
if [ $# -ge 2 ]; then trap cleanup EXIT; else trap 'cleanup all' EXIT; fi

# As on a node: Slurm, and what the suite itself needs. Nothing of what reveal needs.
packages=(munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins procps bats python3 gcc libc6-dev hostname
  util-linux msmtp python3-aiosmtpd ca-certificates)
include=$(printf '%s\n' "${packages[@]}" | sort | paste -sd,)
base=$dir/base-$(echo "$include" | cksum | cut -d' ' -f1).tar
if [ ! -s "$base" ]; then
  echo "a minimal Debian 12 with Slurm"
  timeout $build_limit mmdebstrap --quiet --mode=root --variant=apt --format=tar --include="$include" \
    bookworm "$dir/base.new" "$sources"
  mv "$dir/base.new" "$base"
fi
root=$dir/root
rm -rf --one-file-system "$root"
mkdir "$root"
tar -C "$root" -xf "$base"
cp /etc/resolv.conf /etc/hosts "$root/etc/"
hostname >"$root/etc/hostname"
cp "$sources" "$root/etc/apt/"$([ "${sources##*.}" = list ] || echo sources.list.d/)
[ ! -s /etc/ssl/certs/ca-certificates.crt ] || cp -L --remove-destination /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/" # of a mirror of one's own
[ ! -d /etc/apt/apt.conf.d ] || cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
mount --bind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mkdir -p "$root/reveal-source" "$root/run/lock"
cp -r "$source/tests" "$root/reveal-source/"
mkdir "$root/reveal-packages"
cp "${debs[@]}" "$root/reveal-packages/"
if command -v lintian >/dev/null; then lintian --allow-root --fail-on error "${debs[@]}"; fi

apt() { # apt COMMAND...: in there
  chroot "$root" sh -c "$*" >>"$dir/apt.log" 2>&1 || {
    tail -n 20 "$dir/apt.log"
    exit 1
  }
}
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
