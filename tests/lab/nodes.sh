#!/usr/bin/env bash
# Nodes as network namespaces on one switch: NAME-n0, NAME-n1, ... (eth0, 10.77.0.1, .2, ...) and NAME-sw (bridge br0,
# ports p0, p1, ...). NAME is rvlab and the id of the process that owns them. Needs root.
#
#   nodes.sh up NAME N      builds them; nothing outside these namespaces is touched
#   nodes.sh down NAME      ends what still runs in them and removes them; may be called again
#   nodes.sh clean          the same for every laboratory whose owner has ended without doing it
#   nodes.sh exec NODE COMMAND...   runs it there, with the control groups in sight
set -euo pipefail

names() { ip netns list 2>/dev/null | awk '{ print $1 }' | grep -E '^rvlab[0-9]+-(sw|n[0-9]+)$' || true; }

up() {
  local name="$1" count="$2" i node port
  command -v ethtool >/dev/null || { echo "nodes: ethtool is not installed" >&2; return 1; }
  ip netns add "$name-sw"
  ip -n "$name-sw" link add br0 type bridge
  ip -n "$name-sw" link set br0 up
  for ((i = 0; i < count; i++)); do
    node="$name-n$i" port="p$i"
    ip netns add "$node"
    ip -n "$node" link add eth0 type veth peer name "$port" netns "$name-sw"
    # One packet must be one packet: with segmentation offload a drop hits a 64 KiB super-packet, which looks like a
    # burst of losses.
    ip netns exec "$node" ethtool -K eth0 tso off gso off gro off tx off >/dev/null
    ip netns exec "$name-sw" ethtool -K "$port" tso off gso off gro off tx off >/dev/null
    ip -n "$node" addr add "10.77.0.$((i + 1))/24" dev eth0
    ip -n "$node" link set lo up
    ip -n "$node" link set eth0 up
    ip -n "$name-sw" link set "$port" master br0 up
    # By route, because a namespace may not choose an algorithm that the host does not allow: BBR, the default of some
    # kernels, ignores random loss.
    ip -n "$node" route replace 10.77.0.0/24 dev eth0 proto kernel scope link src "10.77.0.$((i + 1))" congctl cubic
  done
}

down() {
  local name="$1" node pids i
  for i in 1 2 3; do
    pids=""
    for node in $(names | grep "^$name-" || true); do pids+=" $(ip netns pids "$node" 2>/dev/null | tr '\n' ' ')"; done
    [ -n "${pids// /}" ] || break
    # shellcheck disable=SC2086  # a list of numbers
    if [ "$i" = 1 ]; then kill $pids 2>/dev/null || true; else kill -9 $pids 2>/dev/null || true; fi
    sleep 1
  done
  for node in $(names | grep "^$name-" || true); do ip netns del "$node" 2>/dev/null || true; done
  # What a fault may have left, all of it called after the laboratory.
  awk -v name="/$name." 'index($1, name) { print $1 }' /proc/swaps | xargs -r swapoff || true
  awk -v name="/$name." 'index($2, name) { print $2 }' /proc/self/mounts | xargs -r -n 1 umount -l || true
  find /sys/fs/cgroup/{cpu,blkio,memory} -depth -type d -name "$name*" -exec rmdir {} + 2>/dev/null || true
}

clean() {
  local name owner
  for name in $(names | sed 's/-.*//' | sort -u); do
    owner="${name#rvlab}"
    [ -e "/proc/$owner" ] || { echo "nodes: removing $name"; down "$name"; }
  done
}

# `ip netns exec` mounts a fresh /sys, which hides the control groups that a process of a real node can see.
run_on() {
  local node="$1" place type options _
  shift
  local mounts=""
  while read -r _ place type options _; do
    options="$(tr ',' '\n' <<<"$options" | grep -vE '^(rw|ro|nosuid|nodev|noexec|relatime|nsdelegate|memory_.*)$' | paste -sd, || true)"
    [[ "$options" == *name=* ]] || mounts+="$place $type ${options:--}"$'\n'
  done < <(grep -E '^[^ ]+ /sys/fs/cgroup[^ ]* cgroup2? ' /proc/self/mounts || true)
  # shellcheck disable=SC2016  # expanded by the inner shell
  LAB_MOUNTS="$mounts" exec ip netns exec "$node" bash -c '
    [[ "$LAB_MOUNTS" == "/sys/fs/cgroup cgroup2"* ]] || mount -t tmpfs cgroups /sys/fs/cgroup
    while read -r place type options; do
      [ -n "$place" ] || continue
      mkdir -p "$place"
      [ "$options" = - ] && mount -t "$type" cgroup "$place" || mount -t "$type" -o "$options" cgroup "$place" || true
    done <<<"$LAB_MOUNTS"
    unset LAB_MOUNTS
    exec "$@"' run_on "$@"
}

case "${1:-}" in
  up) up "$2" "$3" ;;
  down) down "$2" ;;
  clean) clean ;;
  exec) run_on "${@:2}" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
