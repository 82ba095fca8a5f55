#!/usr/bin/env bash
# The laboratory itself: one short scenario for real. The truth must agree with the namespaces, the traces with the
# truth, and nothing may stay behind, whether a run ends, is terminated or is killed. What the report makes of it is not
# judged here: bench/detection/lab.py does that, on a quiet machine.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'kill -9 ${lab:-} 2>/dev/null || true; "$here/nodes.sh" down rvlab$$; "$here/scenario.py" clean >/dev/null || true
  rm -rf "$out"' EXIT

workload="${1:-mlp-train}" # ring-train, our own program, where there is no PyTorch
/usr/bin/python3 -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' || workload=ring-train
run() { # in the background only: the process is then the laboratory, not a shell
  exec "$here/scenario.py" "$1" --build "$REVEAL_BUILD" --out "$out" --workload "$workload" --seconds 20 \
    --fault-seconds 6 --seed 1
}
left() { # what is left of the laboratories that were made from here
  ip netns list | grep -E "^rvlab($1)-" || true
  pgrep -f "reveal-(run|collect) .*$out" || true
}
fail() { echo "FAIL: $*"; exit 1; }

echo "== 1 % loss into one of two nodes, $workload"
run loss1 >"$out/log" &
lab=$!
wait $lab || { status=$?; cat "$out/log"; exit $status; }
cat "$out/log"
[ -z "$(left $lab)" ] || fail "a finished run left $(left $lab)"
"$REVEAL_BUILD/bin/reveal" report "$out/loss1-$workload-1/job" >"$out/report" || fail "no report"
head -3 "$out/report"

/usr/bin/python3 - "$out/loss1-$workload-1" <<'EOP'
import json, sys, h5py
folder = sys.argv[1]
truth = json.load(open(f"{folder}/truth.json"))
victim, other = truth["node"], next(n for n in truth["nodes"] if n != truth["node"])
dropped, during = truth["counters"]["packets_dropped"], truth["network_during"]
assert 5e9 < truth["end_utc_ns"] - truth["begin_utc_ns"] < 9e9, "the fault was to last 6 s"
assert dropped > 0, "the rule dropped nothing"
arrived = during[victim]["tcp.InSegs"]
assert 0.005 < dropped / (arrived + dropped) < 0.02, f"{dropped} of {arrived + dropped} is not 1 %"
# Every lost segment with data is sent again by the other node; acknowledgements are not.
assert during[other]["tcp.RetransSegs"] > 0.3 * dropped, during
assert during[victim]["tcpext.TCPOFOQueue"] > during[other]["tcpext.TCPOFOQueue"], during


def counted(node, family, metric, instance):
    """Of the whole trace: the first absolute value and all increases."""
    trace = h5py.File(f"{folder}/job/{node}.h5", "r")
    rows = trace[f"network/{family}_channels"]
    keys = list(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:]))
    row = keys.index((metric, instance))
    values = trace[f"network/{family}"][row, :]
    known = values != trace[f"network/{family}"].fillvalue
    return int(trace[f"network/{family}_base"][row, 0]) + int(values[known].sum())


for node in truth["nodes"]:
    for family, metric, instance in (("snmp", "tcp.InSegs", ""), ("snmp", "tcp.OutSegs", ""),
                                     ("netstat", "tcpext.TCPOFOQueue", ""), ("bytes", "net.rx_bytes", "eth0")):
        seen, true = counted(node, family, metric, instance), truth["network"][node][metric]
        print(f"{node} {metric}: trace {seen}, namespace {true}")
        assert 0.95 * true - 20 <= seen <= true, f"{node} {metric} is not that of its own network"
print("the traces count what the namespaces counted")
EOP

echo "== a collector outside of the namespaces its job lives in, as under Slurm with containers"
"$here/nodes.sh" up rvlab$$ 2
cat >"$out/talk.py" <<'EOP'
import socket, sys, time
if sys.argv[1] == "hear":
    with socket.create_server(("10.77.0.1", 5000)) as server, server.accept()[0] as peer:
        while peer.recv(1 << 16): pass
else:
    end = time.monotonic() + 6
    with socket.create_connection(("10.77.0.1", 5000)) as peer:
        while time.monotonic() < end:
            peer.sendall(bytes(1 << 20))
            time.sleep(0.1)
        time.sleep(3)  # so that the kernel can still be asked about all of it
time.sleep(1)  # the collector looks ten times a second
EOP
"$REVEAL_BUILD/bin/reveal-run" --quiet --no-report --output "$out/outside" --node outside -- bash -c "
  ip netns exec rvlab$$-n0 /usr/bin/python3 $out/talk.py hear & sleep 1
  ip netns exec rvlab$$-n1 /usr/bin/python3 $out/talk.py tell; wait"
received=$(ip netns exec rvlab$$-n0 cat /sys/class/net/eth0/statistics/rx_bytes)
"$here/nodes.sh" down rvlab$$
/usr/bin/python3 - "$out/outside/outside.h5" "$received" <<'EOP'
import sys, h5py
trace, received = h5py.File(sys.argv[1], "r"), int(sys.argv[2])
rows, values = trace["network/bytes_channels"], trace["network/bytes"]
totals = {}
for i, (metric, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
    if metric == "net.rx_bytes":
        known = values[i, :][values[i, :] != values.fillvalue]
        totals[instance] = int(known.sum())
print(f"received in the namespace {received}, in the trace {totals}")
assert received > 20e6
assert any(i.endswith("/eth0") and 0.8 * received < seen <= received for i, seen in totals.items()), "not in the trace"

rows, values = trace["network/peer_bytes_channels"], trace["network/peer_bytes"]
peers = {}
for i, (metric, instance) in enumerate(zip(rows["metric"].asstr()[:], rows["instance"].asstr()[:])):
    if metric == "tcp.peer.bytes_received":
        peers[instance] = int(values[i, :][values[i, :] != values.fillvalue].sum())
print(f"received from peers {peers}")
assert "10.77.0.2" in peers, "the connections of the namespaces are not in the trace"
assert 0.6 * received < peers["10.77.0.2"] <= received, "not all of what the connection moved is in the trace"
EOP

echo "== terminated, then killed"
for signal in TERM KILL; do
  rm -rf "$out"/healthy-*
  run healthy >"$out/log" 2>&1 &
  lab=$!
  for _ in $(seq 100); do ls "$out"/healthy-*/job/*.h5.part >/dev/null 2>&1 && break; sleep 0.1; done
  [ -n "$(left $lab)" ] || fail "it did not begin: $(cat "$out/log")"
  kill -$signal $lab
  { wait $lab && fail "it exited 0 after SIG$signal"; } 2>/dev/null
  if [ $signal = KILL ]; then
    [ -n "$(left $lab)" ] || fail "SIGKILL should have left something, so the clean-up below proves nothing"
    "$here/scenario.py" clean
  fi
  [ -z "$(left $lab)" ] || fail "SIG$signal left $(left $lab)"
done
echo "nothing stays behind"
