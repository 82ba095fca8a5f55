#!/usr/bin/env bash
# Three nodes as network namespaces, one training rank and one collector each; packet loss on one of them for 15 s.
# Usage (root): three_nodes.sh BUILD OUT SEED [SECONDS]      prints the truth and whom the report names
# The nodes share one kernel: only their network counters and processes differ.
set -eu
build="$1" out="$2" seed="$3" seconds="${4:-120}"
[ "$(id -u)" = 0 ] || { echo "three_nodes: needs root for network namespaces"; exit 77; }
mkdir -p "$out"
ns() { echo "rvl$1"; }
cleanup() {
  for i in 0 1 2; do ip netns del "$(ns $i)" 2>/dev/null || true; done
  ip netns del rvlsw 2>/dev/null || true
}
trap cleanup EXIT
cleanup
sysctl -q net.ipv4.tcp_allowed_congestion_control="reno bbr cubic" 2>/dev/null || true
ip netns add rvlsw
ip -n rvlsw link add br0 type bridge
ip -n rvlsw link set br0 up
for i in 0 1 2; do
  n=$(ns $i)
  ip netns add "$n"
  ip -n "$n" link add eth0 type veth peer name "p$i" netns rvlsw
  ip -n "$n" addr add "10.77.0.$((i + 1))/24" dev eth0
  ip -n "$n" link set eth0 up
  ip -n "$n" link set lo up
  ip -n rvlsw link set "p$i" master br0 up
  # One packet must be one packet: with segmentation offload a drop hits a 64 KiB super-packet.
  ip netns exec "$n" ethtool -K eth0 tso off gso off gro off tx off >/dev/null 2>&1 || true
  ip netns exec rvlsw ethtool -K "p$i" tso off gso off gro off tx off >/dev/null 2>&1 || true
  ip netns exec "$n" sysctl -q net.ipv4.tcp_congestion_control=cubic 2>/dev/null || true
done
hosts=10.77.0.1,10.77.0.2,10.77.0.3
pids=()
for i in 0 1 2; do
  ip netns exec "$(ns $i)" "$build/bin/reveal-run" --output "$out/job" --node "node$i" --no-report -- \
    "$build/bin/training_job" --rank $i --hosts $hosts --seconds "$seconds" --dir "$out/data$i" >"$out/rank$i.log" 2>&1 &
  pids+=($!)
done
victim=$((seed % 3))
"$build/bin/disturb" --kind loss --netns "$(ns $victim)" --percent 1 --seconds 15 \
  --window "$((seconds / 4)):$((seconds * 6 / 10))" --seed "$seed" --log "$out/truth.jsonl"
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
rm -rf "$out"/data?
"$build/bin/reveal" report "$out/job" >"$out/report.txt" || true
echo "truth: node$victim ($(tail -1 "$out/truth.jsonl"))  job exit $status"
python3 - "$out/job/report.json" <<'EOF'
import json, sys
report = json.load(open(sys.argv[1]))
print("report:", report["verdict"]["status"], report["verdict"]["primary"],
      [(f["id"], f["nodes"], f["intervals"]) for f in report["findings"]])
EOF
