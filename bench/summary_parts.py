#!/usr/bin/python3
"""What takes the bytes of NODE.summary.json: how much smaller the compressed file is without each of its parts.

  bench/summary_parts.py SUMMARY..."""
import copy
import json
import pathlib
import sys
import zlib

PARTS = {
    "trends of channels": ("profile", "columns", "trends"),
    "lines of the page": ("report", "timeline"),
    "means of blocks": ("profile", "columns", "blocks"),
    "names of channels that were 0": ("profile", "zero_names"),
    "names of the others": ("profile", "columns", "names"),
    "training steps": ("steps",),
    "collectives": ("collectives",),
    "findings": ("report", "findings"),
    "intervals": ("report", "episodes"),
    "rules not checked": ("report", "not_checked"),
}


def size(summary: dict) -> int:
    return len(zlib.compress(json.dumps(summary, separators=(",", ":")).encode(), 9))


def without(summary: dict, keys: tuple) -> dict:
    rest = copy.deepcopy(summary)
    folder = rest
    for key in keys[:-1]:
        folder = folder.get(key, {})
    folder.pop(keys[-1], None)
    return rest


for path in map(pathlib.Path, sys.argv[1:]):
    content = path.read_bytes()
    summary = json.loads(zlib.decompress(content))
    whole = size(summary)
    print(f"{path}: {len(content)} bytes; {whole} here, of which")
    for name, keys in PARTS.items():
        print(f"  {whole - size(without(summary, keys)):6} {name}")
