#!/usr/bin/python3
"""Other people's readers on our traces: h5py and xarray (both engines) of Debian.

A closed trace must say to them what it says to our reader (literals of unit test ReleasedTrace), and a .part that
kill -9 left behind must be readable with h5py's swmr=True.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import BUILD, SOURCE, skip  # noqa: E402

TRACE = str(SOURCE / "tests/data/traces/v1.h5")

try:
    import h5py
    import numpy
    import xarray
except ImportError as missing:
    skip(f"{missing}; apt-get install python3-h5py python3-xarray python3-h5netcdf python3-netcdf4")

MISSING = -(2**63)


def check_h5py():
    with h5py.File(TRACE, "r") as trace:
        assert trace.attrs["schema"] == b"reveal.trace" and trace.attrs["schema_version"] == 1
        vmstat = trace["memory/vmstat"]
        assert vmstat.shape == (2, 150) and vmstat.dtype == "i8", vmstat
        assert vmstat.fillvalue == MISSING and vmstat.attrs["_FillValue"] == MISSING
        assert vmstat.maxshape == (None, 100 * 2**18)
        assert (vmstat.shuffle, vmstat.compression, vmstat.fletcher32) == (True, "gzip", True)
        assert list(vmstat.dims[0].keys()) == ["metric", "instance", "role", "channel"], list(vmstat.dims[0].keys())
        assert vmstat.dims[0]["role"].asstr()[:].tolist() == ["node", "job"]
        assert (vmstat[0, 1:] == 10).all() and vmstat[0, 0] == MISSING
        base = trace["memory/vmstat_base"][:]
        assert base.tolist() == [[1000, 1990], [5, 5]], base
        absolute = numpy.where(vmstat[:] == MISSING, 0, vmstat[:]).cumsum(axis=1) + base[:, :1]
        assert absolute[0, 149] == 2490
        share = trace["cpu/share"]
        assert share.dtype == "f8" and numpy.isnan(share.fillvalue) and share[0, 4] == 1.0
        assert trace["events"][0]["code"] == b"process_begin"
        assert trace["clock"][0]["max_error_ns"] == 3
        assert trace["node/topology_xml"][0] == b"<topology/>"
        assert trace["memory/time_100ms"] == trace["time_100ms"], "one axis, linked"

        def fixed_length(name, item):
            if isinstance(item, h5py.Dataset):
                kind = h5py.check_string_dtype(item.dtype)
                assert item.dtype.kind != "O" and (kind is None or kind.length is not None), name

        trace.visititems(fixed_length)


def check_xarray():
    # A process of its own: a crash in a C library must fail this test, not end it.
    for engine in ("h5netcdf", "netcdf4"):
        code = f"import xarray\npath, engine = {TRACE!r}, {engine!r}\n" + """
group = xarray.open_dataset(path, group="/memory", engine=engine)
assert group["vmstat"].dims == ("vmstat_channel", "time_100ms"), group
assert group["meminfo"].dims == ("meminfo_channel", "time_1s"), group
assert group["vmstat"].dtype == "float64" and bool(group["vmstat"][0, 0].isnull())
assert float(group["vmstat"].sum()) == 1490.0
assert float(group["meminfo"][0, -1]) == 4096.0 * 140
for name in ("/", "/cpu", "/node"):
    xarray.open_dataset(path, group=name, engine=engine).load()
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, f"{engine}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    keys = xarray.open_dataset(TRACE, group="/memory/vmstat_channels", engine="h5netcdf")
    assert keys["metric"].values.tolist() == [b"vm.pgfault", b"vm.pgmajfault"]


def check_closed():
    """A trace of today, rewritten when it was closed."""
    collector = BUILD / "bin/reveal-collect"
    if not collector.exists():
        print(f"not checked: a closed trace ({collector} is not built)")
        return
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "closed.h5"
        subprocess.run([collector, "--output", path, "--duration", "3s"], check=True)
        assert os.listdir(directory) == ["closed.h5"], os.listdir(directory)
        with h5py.File(path, "r") as trace:
            assert trace.attrs["complete"] == 1
            families = []
            trace.visititems(lambda name, item: families.append(item) if "kind" in item.attrs else None)
            assert families
            for family in families:
                assert family.maxshape == (None, None), family
                family[:]


def check_killed():
    collector = BUILD / "bin/reveal-collect"
    if not collector.exists():
        print(f"not checked: a .part after kill -9 ({collector} is not built)")
        return
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "killed.h5"
        part = str(path) + ".part"
        collect = subprocess.Popen([collector, "--output", path, "--duration", "60s"], stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 40
            rows = 0
            while rows < 100 and time.monotonic() < deadline and collect.poll() is None:
                time.sleep(0.5)
                with contextlib.suppress(OSError, KeyError):
                    with h5py.File(part, "r", libver="latest", swmr=True) as live:
                        rows = len(live["time_100ms"])
            assert rows >= 100, f"{rows} rows while recording"
        finally:
            collect.kill()
            collect.wait()
        try:
            h5py.File(part, "r").close()
            raise AssertionError("a plain open of a cut-off trace should be refused")
        except OSError:
            pass
        with h5py.File(part, "r", libver="latest", swmr=True) as trace:
            assert len(trace["time_100ms"]) >= rows and trace.attrs["complete"] == 0
            families = []
            trace.visititems(lambda name, item: families.append(item) if "kind" in item.attrs else None)
            assert families
            for family in families:
                family[:]
                # In the middle of a flush the keys are there before the rows they name.
                assert len(family.dims[0]["metric"]) >= family.shape[0], family


check_h5py()
check_xarray()
check_killed()
print("ok")
