#!/usr/bin/python3
"""The table of the laboratory, and how bench/detection/lab.py judges a report. No job runs."""
import fnmatch
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import SOURCE, check, end  # noqa: E402

sys.path.insert(0, str(SOURCE / "bench/detection"))
import lab as judge  # noqa: E402
import scenario as laboratory  # noqa: E402
from scenario_table import GROUPS, SCENARIOS  # noqa: E402

RULES = re.findall(r"^(?:\+ (\S+): .*|(\S+))$", (SOURCE / "tests/data/rules/knowledge_base.txt").read_text(), re.M)
RULES = {rule for both in RULES for rule in both if rule}
for name, scenario in SCENARIOS.items():
    for rule in filter(None, (scenario.rule, *scenario.more_rules, *scenario.or_rules)):
        check(rule in RULES, f"{name}: {rule} is no rule")
    for pattern in scenario.workloads:
        check(fnmatch.filter(laboratory.WORKLOADS, pattern), f"{name}: no workload is named like {pattern}")
for group, names in GROUPS.items():
    for name in names:
        check(name in SCENARIOS, f"{group}: no scenario {name}")
        # With three ranks on two cpus, only these leave the cpus to each other.
        check(not group.startswith("stack") or any(laboratory.suits(each, name)
                                                   for each in ("accelerator-train", "deep-train")),
              f"{group}: {name} suits no workload that waits for its device")
for name in GROUPS["stack"]:
    check(SCENARIOS[name].rule is not None, f"stack: {name} is no fault")
for name in GROUPS["stack_alike"]:
    check(SCENARIOS[name].rule is None, f"stack_alike: {name} is a fault")


def finding(rule: str, nodes: list[str], begin: float, end_: float, severity: str = "warning") -> dict:
    return {"id": rule, "severity": severity, "nodes": nodes, "subsystem": "process",
            "intervals": [{"begin": begin, "end": end_}], "impact": {"seconds": end_ - begin}}


NODES = ["node0", "node1", "node2"]
TRUTH = {"rule": "stack.hang", "or_rules": [], "more_rules": [], "subsystem": "process", "also": [], "nodes": NODES,
         "node": "node1", "nodes_touched": ["node1"], "begin_utc_ns": 100 * 10**9, "end_utc_ns": 150 * 10**9}


def judged(findings: list[dict], **changes) -> dict:
    return judge.verdict(TRUTH | changes, {"findings": findings, "verdict": {"status": "finding"}}, None)


right = judged([finding("stack.hang", ["node1"], 100, 150)])
check(right["rule"] and right["named"] and right["all"] and "live" not in right, f"a right report: {right}")
check(not judged([finding("stack.hang", NODES, 100, 150)])["named"], "all nodes are no name")
check(not judged([finding("stack.hang", ["node1"], 10, 20)])["named"], "named at another time")
second = judged([finding("net.congestion", ["node0"], 100, 150), finding("stack.hang", ["node1"], 101, 150)])
check(second["named"] and not second["rule"], f"the rule is that of the first finding: {second}")
other = [finding("stack.gc_pauses", ["node1"], 100, 150)]
check(not judged(other)["rule"], "another rule")
check(judged(other, or_rules=["stack.gc_pauses"])["rule"], "another rule that names the same cause")
chain = [finding("irq.softirq_saturation", ["node0"], 100, 150),
         finding("net.tcp_retrans_fault", ["node1"], 110, 120, "notice") | {"caused_by": "irq.softirq_saturation"}]
check(judged(chain)["led_to"] == ["net.tcp_retrans_fault"], f"what the first finding led to: {judged(chain)}")
check(judged(other)["led_to"] == [] and judged([])["led_to"] == [], "nothing")


ENTERS_NOT = "rank0 on node0 waited in gloo.allreduce for rank0 on node1, which did not enter it."


def watched(*hangs: tuple[float, str]) -> dict:
    published = [{"came_utc_ns": int(second * 1e9), "text": text} for second, text in hangs]
    return judged([finding("stack.hang", ["node1"], 100, 150)], hangs=published)


check(not watched()["live"] and watched()["live_seconds"] is None, "nothing was published")
check(watched((112.3, ENTERS_NOT))["live"], "after 12 s")
check(watched((112.3, ENTERS_NOT))["live_seconds"] == 12.3, "the seconds from its begin")
check(not watched((116, ENTERS_NOT))["live"], "after 16 s")
check(not watched((112.3, ENTERS_NOT.replace("node1", "node2")))["live"], "another node")
check(not watched((112.3, ENTERS_NOT.replace("node1", "node2").replace("node0", "node1")))["live"], "it waits itself")
check(watched((90, ENTERS_NOT))["live_seconds"] is None, "before the fault")
column = judge.live_of([watched((110, ENTERS_NOT)), watched((140, ENTERS_NOT)), right])
check(column == "25.00 (1/2)", f"the column of the table: {column}")
end()
