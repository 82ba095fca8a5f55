#!/usr/bin/python3
"""Each function that the collector counts has a row of its own in the analysis: without one, no rule knows whether it
waits for other ranks."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import SOURCE, check, end  # noqa: E402

ROW = re.compile(r'^    \{"([^"]+)",', re.MULTILINE)
counted = ROW.findall((SOURCE / "core/stack/stack_functions.cpp").read_text())
known = ROW.findall((SOURCE / "postproc/telemetry/call_facts.cpp").read_text())
check(len(counted) > 50, f"the table of functions was not read: {counted}")
for function in counted:
    check(function in known, f"{function} has no row in postproc/telemetry/call_facts.cpp")
for row in known:
    check(row in counted or row.endswith("*"), f"{row} in postproc/telemetry/call_facts.cpp is not counted")
check(len(known) == len(set(known)), "a function has two rows in postproc/telemetry/call_facts.cpp")
end()
