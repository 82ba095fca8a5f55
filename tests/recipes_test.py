#!/usr/bin/env python3
"""The recipes for Spack and EasyBuild name the version and the requirements of CMakeLists.txt."""
import ast
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import SOURCE, check, end

# What CMakeLists.txt requires, by its name there: the packages of Spack and of EasyBuild; None: part of the toolchain.
PACKAGES = {
    "Threads": (None, None),
    "HDF5": ("hdf5", "HDF5"),
    "Eigen3": ("eigen", "Eigen"),
    "spdlog": ("spdlog", "spdlog"),
    "PkgConfig": ("pkgconfig", "pkgconf"),
    "hwloc": ("hwloc", "hwloc"),
    "libdeflate": ("libdeflate", "libdeflate"),
    "gmime-3.0": ("gmime", "libgmime-3.0-dev"),
    "SQLite3": ("sqlite", "SQLite"),
    "CLI/CLI.hpp": ("cli11", "CLI11"),
    "nlohmann/json.hpp": ("nlohmann-json", "nlohmann_json"),
}
SPACK = "site-config/spack/packages/reveal/package.py"
EASYBUILD = "site-config/easybuild/reveal-0.1.0-gompi-2024a.eb"


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as file:
        return file.read()


def spack_calls(tree):
    """The calls in the class of the recipe: (name, first argument)."""
    return [(node.value.func.id, node.value.args[0].value) for body in tree.body if isinstance(body, ast.ClassDef)
            for node in body.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]


def easybuild_settings(tree):
    settings = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            settings[node.targets[0].id] = ast.literal_eval(node.value)
        elif isinstance(node, ast.AugAssign):
            settings[node.target.id] += ast.literal_eval(node.value)
    return settings


cmake = read("CMakeLists.txt")
version = re.search(r"^project\(reveal VERSION ([0-9.]+)", cmake, re.M).group(1)
least_cmake = re.search(r"^cmake_minimum_required\(VERSION ([0-9.]+)\)", cmake, re.M).group(1)
required = (re.findall(r"^find_package\((\w+) REQUIRED", cmake, re.M)
            + re.findall(r"^pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET (\S+)\)", cmake, re.M)
            + re.findall(r"^find_path\(\w+ (\S+) REQUIRED\)", cmake, re.M))
check(len(required) >= 11, f"CMakeLists.txt requires only {required}")
for name in required:
    check(name in PACKAGES, f"CMakeLists.txt requires {name}: add it to both recipes, and to PACKAGES here")

calls = spack_calls(ast.parse(read(SPACK), SPACK))
needed = {re.match(r"[a-z0-9-]+", spec).group(0): spec for call, spec in calls if call == "depends_on"}
check([v for call, v in calls if call == "version"] == [version], f"{SPACK}: not version {version}")
check(needed.get("cmake") == f"cmake@{least_cmake}:", f"{SPACK}: not CMake {least_cmake} or newer")
settings = easybuild_settings(ast.parse(read(EASYBUILD), EASYBUILD))
check(settings["version"] == version and settings["sources"] == [f"reveal-{version}.tar.gz"], f"{EASYBUILD}: not version {version}")
toolchain = settings["toolchain"]
check(EASYBUILD.endswith(f"/reveal-{version}-{toolchain['name']}-{toolchain['version']}.eb"),
      f"{EASYBUILD}: EasyBuild looks for it under another name")
offered = {row[0]: row[1] for row in settings["dependencies"] + settings["builddependencies"]}
check(tuple(map(int, offered["CMake"].split(".")[:2])) >= tuple(map(int, least_cmake.split("."))),
      f"{EASYBUILD}: CMake is older than {least_cmake}")
system = {name for names in settings["osdependencies"] for name in names}
for name in filter(PACKAGES.__contains__, required):
    of_spack, of_easybuild = PACKAGES[name]
    check(of_spack is None or of_spack in needed, f"{SPACK} does not depend on {of_spack}")
    check(of_easybuild is None or of_easybuild in offered or of_easybuild in system,
          f"{EASYBUILD} does not depend on {of_easybuild}")
for what, names in ((SPACK, needed), (EASYBUILD, offered)):
    check("help2man" in names, f"{what} makes no manual pages: it does not depend on help2man")

# An option that CMake does not have would be ignored.
options = set(re.findall(r"(?:option|find_file|find_path)\((\w+)|set\((\w+) [^\n]* CACHE ", cmake + read("site-config/slurm.cmake")
                         + read("site-config/embed.cmake")))
known = {one or other for one, other in options}
for option in re.findall(r'define\("(\w+)"', read(SPACK)) + re.findall(r"-D(\w+)=", settings["configopts"]):
    check(option in known, f"a recipe sets {option}, which CMake does not have")
end()
