# Sourced by the tests of this folder: builds an image of Debian 12 with reveal's packages in it, boots it in qemu without
# hardware help, and takes out what it left in /result. Sets `dir`, `root` and `packages`; needs root.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
build_limit=1800
seed=${SEED:-$RANDOM} # draws when faults begin
in_network=() # what qemu is started by, for a network of its own
# Of an emulated compute node without systemd.
node_packages=(linux-image-amd64 procps iproute2 iperf3 numactl stress-ng rdma-core ibverbs-utils perftest kmod udev
  ethtool mawk python3-minimal nfs-kernel-server)

skip() {
  echo "skipped: $*"
  exit 77
}
say() { printf '%4d s  %s\n' $SECONDS "$*"; }
die() {
  echo "$(basename "$0"): $*" >&2
  exit 1
}

guest_begin() { # guest_begin PACKAGES [DIR]: PACKAGES is a folder with the packages of one build
  [ "$(id -u)" = 0 ] || skip "needs root to build the image of the guest"
  local program
  for program in qemu-system-x86_64 mmdebstrap mke2fs e2fsck debugfs dpkg-deb python3; do
    command -v $program >/dev/null || skip "$program is not installed"
  done
  [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = bookworm ] || skip "this machine's apt sources are not those of Debian 12"
  for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do [ ! -s $sources ] || break; done
  [ -s $sources ] || skip "there are no apt sources"
  packages=("$(realpath "$1")"/reveal*.deb)
  [ -f "${packages[0]}" ] || die "$1: no packages of reveal are there"
  if [ $# -ge 2 ]; then
    mkdir -p "$2"
    dir=$(cd "$2" && pwd -P)
    trap 'rm -rf "$dir/root" "$dir/base.new"' EXIT
  else
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
  fi
  root=$dir/root
}

# Everything but reveal itself comes from the archive and is the same for every build of reveal: kept.
guest_root() { # guest_root DEBIAN-PACKAGE...: unpacks Debian with these and reveal into $root
  local needed include base
  mapfile -t needed < <(for package in "${packages[@]}"; do dpkg-deb -f "$package" Depends; done | tr ',' '\n' |
    sed 's/|.*//; s/(.*//; s/ //g; /^reveal/d')
  include=$(printf '%s\n' "$@" "${needed[@]}" | sort -u | paste -sd,)
  base=$dir/base-$(echo "$include" | cksum | cut -d' ' -f1).tar
  if [ ! -s "$base" ]; then
    say "Debian 12 with $*"
    timeout $build_limit mmdebstrap --quiet --mode=root --variant=minbase --format=tar --include="$include" \
      bookworm "$dir/base.new" "$sources"
    mv "$dir/base.new" "$base"
  fi
  say "image with $(basename -a "${packages[@]}" | xargs)"
  rm -rf "$root" "$dir/result" "$dir/image"
  mkdir "$root"
  tar -C "$root" -xf "$base"
  mkdir "$root/packages"
  cp "${packages[@]}" "$root/packages/"
  chroot "$root" sh -c 'dpkg -i /packages/*.deb' >"$dir/dpkg.log" 2>&1 ||
    { cat "$dir/dpkg.log" && die "the packages cannot be installed"; }
  echo guest >"$root/etc/hostname"
  echo "127.0.0.1 localhost guest" >"$root/etc/hosts"
  echo "/dev/vda / ext4 defaults 0 1" >"$root/etc/fstab"
  install -d -m 755 "$root/result"
}

# The other end of the guest's card is a network namespace of this machine, 10.99.0.1, with an iperf3 server. Sets `card`:
# what qemu needs for it, but for the device.
guest_network() {
  local program
  for program in ip iperf3; do command -v $program >/dev/null || skip "$program is not installed"; done
  net=rvguest$$
  ip netns add $net
  ip netns exec $net ip tuntap add tap0 mode tap multi_queue
  ip netns exec $net ip addr add 10.99.0.1/24 dev tap0
  ip netns exec $net ip link set tap0 up
  ip netns exec $net iperf3 --server --daemon --pidfile "$dir/iperf3.pid"
  trap guest_end EXIT
  in_network=(ip netns exec $net)
  card=(-netdev tap,id=n0,ifname=tap0,script=no,downscript=no,queues=4,vhost=off)
}
# Guests that reach only each other: a switch, in a network namespace of this machine, with a port for each.
guest_switch() { # guest_switch PORT...
  local port
  command -v ip >/dev/null || skip "ip is not installed"
  net=rvguest$$
  ip netns add $net
  trap guest_end EXIT
  ip -n $net link add switch type bridge
  ip -n $net link set switch up
  for port; do
    ip netns exec $net ip tuntap add $port mode tap
    ip -n $net link set $port master switch up
  done
  in_network=(ip netns exec $net)
}
guest_end() {
  [ ! -f "$dir/iperf3.pid" ] || kill "$(tr -d '\0' <"$dir/iperf3.pid")" 2>/dev/null || true
  ip netns del $net
  rm -rf "$dir/root" "$dir/base.new"
}

install_scenario() { # install_scenario FILE: as the guest's first process (init=/usr/local/sbin/scenario)
  install -m 755 "$1" "$root/usr/local/sbin/scenario"
  install -m 644 "$here/first_process.sh" "$root/usr/local/sbin/first_process.sh"
}

guest_image() { # turns $root into $dir/image, with its kernel beside it
  cp "$(echo "$root"/boot/vmlinuz-*)" "$dir/vmlinuz"
  cp "$(echo "$root"/boot/initrd.img-*)" "$dir/initrd"
  truncate -s 4G "$dir/image"
  mke2fs -q -t ext4 -d "$root" "$dir/image"
  rm -rf "$root"
}

guest_run() { # guest_run SECONDS IMAGE KERNEL-ARGUMENTS QEMU-ARGUMENT...: boots $dir/IMAGE and waits until it powers off
  local limit=$1 image=$dir/$2 arguments=$3 status=0
  shift 3
  "${in_network[@]}" timeout --kill-after=10 "$limit" qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max -display none \
    -monitor none -no-reboot -serial "file:$image.console" \
    -drive "file=$image,if=none,id=disk,format=raw,cache=unsafe" -device virtio-blk-pci,drive=disk,bus=pcie.0 -vga none \
    -kernel "$dir/vmlinuz" -initrd "$dir/initrd" -append "root=/dev/vda rw console=ttyS0 quiet psi=1 no_timer_check SEED=$seed $arguments" "$@" \
    </dev/null >"$image.log" 2>&1 || status=$?
  [ $status = 0 ] || say "qemu ended with $status: $(tail -n 3 "$image.log")"
  return $status
}

guest_result() { # guest_result IMAGE: its /result, as $dir/result
  rm -rf "$dir/result"
  e2fsck -fy "$dir/$1" >"$dir/e2fsck.log" 2>&1 || true # it was powered off without ceremony
  debugfs -R "rdump /result $dir" "$dir/$1" >/dev/null 2>&1
  say "what the guest says, seed $seed"
  cat "$dir/result/scenario.txt" 2>/dev/null || tail -n 40 "$dir/$1.console"
  [ ! -s "$dir/result/judged" ] || python3 "$here/table.py" "$dir/result" || true
}

guest_boot() { # guest_boot SECONDS KERNEL-ARGUMENTS QEMU-ARGUMENT...: until it powers off; leaves $dir/result
  local status=0
  guest_image
  say "booting"
  guest_run "$1" image "${@:2}" || status=$?
  guest_result image
  return $status
}
