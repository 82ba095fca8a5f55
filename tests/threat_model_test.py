#!/usr/bin/python3
"""The threat model names tests that exist."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness import SOURCE, check, end  # noqa: E402

TESTS = SOURCE / "tests"


def unit_tests() -> set[str]:
    pattern = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
    return {f"{suite}.{name}" for file in (TESTS / "unit").rglob("*.cpp") for suite, name in pattern.findall(file.read_text())}


def slurm_cases() -> set[str]:
    pattern = re.compile(r'^@test "(.*)" \{', re.MULTILINE)
    return {f'slurm/{file.stem}: "{name}"' for file in (TESTS / "integration/slurm").glob("*.bats")
            for name in pattern.findall(file.read_text())}


def programs() -> set[str]:
    return {file.stem for file in (TESTS / "integration").glob("*_test.*")} | {"fuzz_replay"}


def main():
    known = unit_tests() | slurm_cases() | programs()
    page = (SOURCE / "site-config/threat-model.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| attempt")]
    check(len(rows) >= 25, f"only {len(rows)} threats are listed")
    for row in rows:
        attempt, _, tests = [cell.strip() for cell in row.strip("|").split("|")]
        named = re.findall(r"`([^`]+)`", tests)
        check(named, f"{attempt}: no test")
        for name in named:
            check(name in known, f"{attempt}: there is no test {name}")
    for name in re.findall(r"`([A-Z]\w+\.[A-Z]\w+)`", page):
        check(name in known or name == "Suite.Test", f"there is no test {name}")
    end()


main()
