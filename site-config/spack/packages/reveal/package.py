# A recipe for Spack, with the requirements of CMakeLists.txt (tests/recipes_test.py compares them). It was not tried with
# Spack.
#
#   spack repo add site-config/spack
#   spack develop --path $PWD reveal@=0.1.0 && spack install reveal
#
# Spack's own gmime is 2.6: name the system's (packages.yaml: gmime: {externals: [{spec: gmime@3.2, prefix: /usr}]}).
# dygraphs is no package of Spack: the chart library of the HTML report comes from a folder of this machine.
from spack.package import *

try:  # Spack 1.0 moved the build systems into its repository of packages
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass


class Reveal(CMakePackage):
    """Finds what silently slowed a job down."""

    homepage = "file:///usr/share/doc/reveal/README.md"
    manual_download = True

    license("MIT")

    version("0.1.0")

    variant("slurm", default=True, description="Build the plugin for Slurm")
    variant("libpfm", default=True, description="Names of hardware events from libpfm")
    variant(
        "dygraphs",
        default="/usr/share/javascript/dygraphs",
        description="Folder with dygraph.min.js and dygraph.min.css",
    )

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("help2man", type="build")
    depends_on("hdf5@1.10: +cxx ~mpi")
    depends_on("eigen@3:")
    depends_on("spdlog")
    depends_on("hwloc@2:")
    depends_on("libdeflate")
    depends_on("gmime@3:")
    depends_on("sqlite@3:")
    depends_on("cli11@2:")
    depends_on("nlohmann-json@3:")
    depends_on("slurm", when="+slurm")
    depends_on("libpfm4", when="+libpfm")

    generator("ninja")

    def cmake_args(self):
        dygraphs = self.spec.variants["dygraphs"].value
        args = [
            self.define("REVEAL_TESTS", False),
            self.define("DYGRAPHS_JS", join_path(dygraphs, "dygraph.min.js")),
            self.define("DYGRAPHS_CSS", join_path(dygraphs, "dygraph.min.css")),
            self.define("REVEAL_SLURM_PLUGIN_DIR", "lib/slurm"),
        ]
        if self.spec.satisfies("+slurm"):
            args.append(self.define("SLURM_SPANK_INCLUDE", self.spec["slurm"].prefix.include))
        return args
