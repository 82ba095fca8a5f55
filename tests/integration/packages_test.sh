#!/bin/bash
# The packages that cpack makes of this build: which files and dependencies each one has, and what dpkg and rpm do with
# them in an empty directory: install, upgrade, downgrade, remove, purge. tests/package/slurm_package.sh installs them in
# a whole Debian.
set -u
export LC_ALL=C.UTF-8 PATH=$PATH:/usr/sbin:/sbin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $*" >&2; failures=$((failures + 1)); }

for program in cpack dpkg-deb dpkg-shlibdeps; do
  command -v $program >/dev/null || { echo "skipped: $program is not installed"; exit 77; }
done
# A build directory may belong to another user, and the manual pages are made in it.
[ -w "$REVEAL_BUILD" ] || { echo "skipped: $REVEAL_BUILD is not writable"; exit 77; }
packed() { # packed GENERATOR: the packages, below $work/GENERATOR
  (cd "$REVEAL_BUILD" && cpack -G "$1" -B "$work/$1") >"$work/$1.log" 2>&1 || { cat "$work/$1.log"; exit 1; }
}
setting() { sed -n "s/^$1:[A-Z]*=//p" "$REVEAL_BUILD/CMakeCache.txt"; }
prefix=$(setting CMAKE_INSTALL_PREFIX)
release=$(sed -n 's/^project(reveal VERSION \([0-9.]*\).*/\1/p' "$REVEAL_SOURCE/CMakeLists.txt")
site=$prefix/etc/reveal
[ "$prefix" != /usr ] || site=/etc/reveal
plugin=no
[ -z "$(setting SLURM_SPANK_INCLUDE | grep -v NOTFOUND)" ] || plugin=yes
names=(reveal reveal-collector)
[ $plugin = no ] || names+=(reveal-slurm reveal-slurm-stub)

# of PACKAGE: its files and links, without directories.
of() { sort "$work/files/$1"; }
judge_files() { # judge_files KIND: the lists in $work/files
  local kind=$1 file
  for file in bin/reveal-collect bin/reveal-run share/bash-completion/completions/reveal-run; do
    of reveal-collector | grep -qx "$prefix/$file" || fail "$kind: no $file in reveal-collector"
  done
  of reveal-collector | grep -qx "$site/reveal.conf" || fail "$kind: no reveal.conf in reveal-collector"
  for file in bin/reveal share/bash-completion/completions/reveal lib/systemd/system/reveal-digest.timer \
    lib/systemd/system/reveal-mailer.timer; do
    of reveal | grep -qx "$prefix/$file" || fail "$kind: no $file in reveal"
  done
  if command -v help2man >/dev/null; then
    of reveal | grep -qx "$prefix/share/man/man1/reveal-show.1.*" || fail "$kind: no reveal-show.1 in reveal"
    of reveal-collector | grep -qx "$prefix/share/man/man1/reveal-run.1.*" || fail "$kind: no reveal-run.1 in reveal-collector"
  fi
  if [ $plugin = yes ]; then
    for file in ".*/spank_reveal.so" "$site/plugstack.conf" "$prefix/libexec/reveal/spool-janitor" \
      "$prefix/lib/systemd/system/reveal-janitor.timer" "$prefix/lib/tmpfiles.d/reveal.conf"; do
      of reveal-slurm | grep -qx "$file" || fail "$kind: no $file in reveal-slurm"
    done
    for file in ".*/spank_reveal_stub.so" "$prefix/share/reveal/spank_reveal_stub.c" "$prefix/share/reveal/plugstack-stub.conf"; do
      of reveal-slurm-stub | grep -qx "$file" || fail "$kind: no $file in reveal-slurm-stub"
    done
  fi
  file=$(sort "$work"/files/* | uniq -d)
  [ -z "$file" ] || fail "$kind: in two packages: $file"
}
depends_on() { # depends_on FILE NAME: as a word of the field
  grep -qE "(^|, )$2( \(|,|$)" <<<"$(dpkg-deb -f "$1" Depends)" || fail "$(basename "$1") does not depend on $2"
}

# --- Debian
packed DEB
mkdir "$work/files"
for name in "${names[@]}"; do
  package=$(echo "$work/DEB/${name}_${release}"_*.deb)
  [ -f "$package" ] || { fail "cpack -G DEB makes no $name"; continue; }
  dpkg-deb -c "$package" | awk '$1 !~ /^d/ { print substr($6, 2) }' >"$work/files/$name"
  ln -s "$package" "$work/$name.deb"
done
judge_files deb
if command -v zsh >/dev/null; then
  folder=$(of reveal-collector | sed -n 's|/_reveal$||p')
  zsh -f -c 'print -l $fpath' | grep -qx "$folder" || fail "zsh does not search ${folder:-for _reveal}: $(zsh -f -c 'print $fpath')"
fi
depends_on "$work/reveal.deb" reveal-collector
depends_on "$work/reveal.deb" python3
depends_on "$work/reveal-collector.deb" libc6
! dpkg-deb -f "$work/reveal-collector.deb" Depends | grep -qE 'reveal|python3|gmime|sqlite' ||
  fail "reveal-collector needs more than a compute node has: $(dpkg-deb -f "$work/reveal-collector.deb" Depends)"
[ "$(dpkg-deb -f "$work/reveal-collector.deb" Recommends)" = "reveal (= $release)" ] || fail "reveal-collector does not recommend reveal"
if [ $plugin = yes ]; then
  depends_on "$work/reveal-slurm.deb" reveal-collector
  depends_on "$work/reveal-slurm.deb" reveal
  # It stays where reveal goes.
  ! dpkg-deb -f "$work/reveal-slurm-stub.deb" Depends | grep -q reveal || fail "reveal-slurm-stub depends on reveal"
fi

if [ "$(id -u)" != 0 ]; then
  echo "installing packages needs root: it was not tried"
else
  root=$work/root
  mkdir -p "$root/var/lib/dpkg/"{info,updates}
  touch "$root/var/lib/dpkg/status"
  # Nothing that the packages depend on is in this directory, neither libraries nor a shell for their scripts.
  in_root() { dpkg --root="$root" --force-depends --force-script-chrootless "$@" >>"$work/dpkg.log" 2>&1 || { fail "dpkg $*"; tail -n 5 "$work/dpkg.log" >&2; }; }
  for name in "${names[@]}"; do in_root -i "$(realpath "$work/$name.deb")"; done
  for program in reveal reveal-run reveal-collect; do
    "$root$prefix/bin/$program" --version >/dev/null || fail "$program of the package does not run"
  done
  # Another version, up and down: a reveal.conf that the site has edited stays, a plugstack.conf that it has not is
  # that of the package.
  other=$release+other
  files=()
  for name in "${names[@]}"; do
    tree=$work/tree-$name
    dpkg-deb -R "$(realpath "$work/$name.deb")" "$tree"
    sed -i "s/^Version: .*/Version: $other/; s/(= $release)/(= $other)/g" "$tree/DEBIAN/control"
    for file in "$tree$site"/*.conf; do [ ! -f "$file" ] || echo "# of another version" >>"$file"; done
    dpkg-deb -Znone -b "$tree" "$work/$name-other.deb" >>"$work/dpkg.log"
    rm -r "$tree"
    files+=("$work/$name-other.deb")
  done
  judge_version() { # judge_version VERSION LINES: of plugstack.conf, those of another version
    local name
    for name in "${names[@]}"; do
      [ "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Version} ${db:Status-Status}' $name)" = "$1 installed" ] ||
        fail "$name is not installed as $1"
    done
    "$root$prefix/bin/reveal-collect" --version >/dev/null || fail "reveal-collect of $1 does not run"
    [ "$(tail -n 1 "$root$site/reveal.conf")" = "# the site's line" ] || fail "$1 has lost the site's reveal.conf"
    [ $plugin = no ] || [ "$(grep -c "of another version" "$root$site/plugstack.conf")" = "$2" ] ||
      fail "plugstack.conf is not that of $1"
  }
  echo "# the site's line" >>"$root$site/reveal.conf"
  in_root --force-confold -i "${files[@]}"
  judge_version "$other" 1
  grep -q "of another version" "$root$site/reveal.conf.dpkg-dist" || fail "the package's reveal.conf is not beside the site's"
  files=()
  for name in "${names[@]}"; do files+=("$(realpath "$work/$name.deb")"); done
  in_root --force-confold -i "${files[@]}"
  judge_version "$release" 0
  if [ $plugin = yes ]; then
    echo "# the site's line" >>"$root$site/plugstack.conf"
    in_root --remove reveal-slurm
    [ ! -e "$root$site/plugstack.conf" ] || fail "plugstack.conf still names a plugin that was removed"
    in_root -i "$(realpath "$work/reveal-slurm.deb")"
    grep -q "the site's line" "$root$site/plugstack.conf" || fail "the site's plugstack.conf does not come back"
    in_root --purge reveal-slurm
    [ -e "$root$prefix/share/reveal/plugstack-stub.conf" ] || fail "the stub goes with the plugin"
    in_root --purge reveal-slurm-stub
  fi
  in_root --purge reveal reveal-collector
  left=$(find "$root" -name '*reveal*' ! -path "$root/var/*")
  [ -z "$left" ] || fail "left over by dpkg --purge: $left"
fi

# --- RPM
if ! command -v rpmbuild >/dev/null; then
  echo "rpmbuild is not installed: RPM packages were not tried"
  exit $((failures > 0))
fi
packed RPM
rm "$work"/files/*
for name in "${names[@]}"; do
  package=$(echo "$work/RPM/$name-$release"-*.rpm)
  [ -f "$package" ] || { fail "cpack -G RPM makes no $name"; continue; }
  rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$package" | awk '$1 !~ /^d/ { print $2 }' >"$work/files/$name"
  ln -s "$package" "$work/$name.rpm"
  while read -r folder; do
    [[ $folder == *reveal* ]] || fail "$name.rpm owns $folder, a directory of other packages"
  done < <(rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$package" | awk '$1 ~ /^d/ { print $2 }')
done
judge_files rpm
rpm -qp --requires "$work/reveal.rpm" | grep -qx "reveal-collector = $release" || fail "reveal.rpm does not require reveal-collector"
rpm -qp --configfiles "$work/reveal-collector.rpm" | grep -qx "$site/reveal.conf" || fail "reveal.conf of the RPM is no configuration file"
! rpm -qp --requires "$work/reveal-collector.rpm" | grep -v '^config(' | grep -qiE 'reveal|python|gmime|sqlite' || fail "reveal-collector.rpm needs more than a compute node has"
if [ $plugin = yes ]; then
  rpm -qp --requires "$work/reveal-slurm.rpm" | grep -qx "reveal = $release" || fail "reveal-slurm.rpm does not require reveal"
  rpm -qp --scripts "$work/reveal-slurm.rpm" | grep -q "systemd-tmpfiles --create reveal.conf" || fail "reveal-slurm.rpm makes no spool"
fi
if [ "$(id -u)" = 0 ]; then
  root=$work/rpmroot
  mkdir "$root"
  rpm_in_root() { rpm --root "$root" --nodeps --noscripts "$@" >>"$work/rpm.log" 2>&1 || { fail "rpm $*"; tail -n 5 "$work/rpm.log" >&2; }; }
  for name in "${names[@]}"; do rpm_in_root -i "$(realpath "$work/$name.rpm")"; done
  "$root$prefix/bin/reveal-collect" --version >/dev/null || fail "reveal-collect of the RPM does not run"
  for name in "${names[@]}"; do rpm_in_root -e "$name"; done
  left=$(find "$root" -name '*reveal*' ! -path "$root/var/*" ! -path "*/lib/sysimage/*")
  [ -z "$left" ] || fail "left over by rpm -e: $left"
fi
exit $((failures > 0))
