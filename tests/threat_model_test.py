#!/usr/bin/python3
"""Each line of the threat model names tests, these exist, and no test that tries an attack is missing there."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import SOURCE, check, end  # noqa: E402

TESTS = SOURCE / "tests"
# Names of unit tests that try an attack.
ATTACK = re.compile(r"^SystemCallsOf|Hostile|EscapeSequence|Through(A|No|ASymbolic)Link|Follows?NoLink|NoLinks$")
# The last column of a line.
NAMES = re.compile(r"`[^`]+`(, `[^`]+`)*")


def unit_tests() -> set[str]:
    pattern = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
    return {f"{suite}.{name}" for file in (TESTS / "unit").rglob("*.cpp")
            for suite, name in pattern.findall(file.read_text())}


def slurm_cases() -> set[str]:
    pattern = re.compile(r'^@test "(.*)" \{', re.MULTILINE)
    return {f'slurm/{file.stem}: "{name}"' for file in (TESTS / "integration/slurm").glob("*.bats")
            for name in pattern.findall(file.read_text())}


def programs() -> set[str]:
    added = re.findall(r"^add_test\(NAME (\w+) ", (TESTS / "CMakeLists.txt").read_text(), re.MULTILINE)
    return {file.stem for file in (TESTS / "integration").glob("*_test.*")} | set(added)


def rows_of(page: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| attempt")]


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def faults(page: str, known: set[str]) -> list[str]:
    found = []
    for row in rows_of(page):
        attempt, nodes, _, tests = [cell.strip() for cell in row.strip("|").split("|")]
        if nodes not in ("any", "shared"):
            found.append(f"{attempt}: on {nodes} nodes")
        if not NAMES.fullmatch(tests):
            found.append(f"{attempt}: the last column is no list of tests: {tests}")
        found += [f"{attempt}: there is no test {name}" for name in names_in(tests) if name not in known]
    for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", page):
        if name not in known and name != "Suite.Test":
            found.append(f"there is no test {name}")
    found += [f"{name} tries an attack that the page does not list" for name in sorted(known)
              if ATTACK.search(name) and f"`{name}`" not in page]
    return found


def main():
    known = unit_tests() | slurm_cases() | programs()
    page = (SOURCE / "site-config/threat-model.md").read_text()
    check(len(rows_of(page)) >= 45, f"only {len(rows_of(page))} threats are listed")
    for fault in faults(page, known):
        check(False, fault)
    for row in rows_of(page):  # whatever test is lost, or forgotten in a row, is found
        _, nodes, _, tests = [cell.strip() for cell in row.strip("|").split("|")]
        for name in names_in(tests):
            check(faults(page, known - {name}), f"nobody misses {name}")
        check(faults(page.replace(row, row.replace(tests, "none")), known), f"nobody misses the tests of {row[:60]}")
        check(faults(page.replace(row, row.replace(f"| {nodes} |", "| |")), known), f"nobody misses the nodes of {row[:60]}")
    check(faults(page, known | {"Suite.TakesAHostileFile"}), "nobody misses the attack of a new test")
    end()


main()
