"""Reads traces of reveal (NODE.h5, NODE.h5.part) into pandas, with nothing but h5py, numpy and pandas.

    import reveal

    with reveal.open("reveal-4711/n03.h5") as trace:
        busy = trace.frame("cpu.user")         # one column per cpu, UTC index
        print(busy.mean(), busy.attrs["units"])
    nodes = reveal.job("reveal-4711", "cpu.*")  # all nodes of a job: rows by (node, time)
    print(nodes.groupby("node").mean())

Counters and events become rates per second, gauges and states stay as they are, and what was not measured is NaN.
The format is described in hdf5schema/README.md of the source.
"""
import fnmatch
import pathlib
import warnings

import h5py
import numpy
import pandas

_MISSING = numpy.iinfo(numpy.int64).min
_LONGEST_GAP = 20  # rows: a function that costs too much to count rests longer, and its calls are not counted meanwhile
# Counters of time and of energy are whole ns and uJ in the file; per second they are plain ratios and watts.
_RATES = {"ns": ("s/s", 1e-9), "uJ": ("W", 1e-6)}


def open(path):
    """A trace, closed or still being recorded (`.h5.part`)."""
    return Trace(path)


def job(directory, *patterns):
    """The channels of all nodes of a job directory that meet the patterns (as Trace.frame()), in one frame.

    Rows (node, time), columns (metric, instance); a channel that a node does not have is NaN there.
    """
    parts, units = {}, {}
    for path in _traces(pathlib.Path(directory)):
        try:
            with Trace(path) as trace:
                node, part = trace.header["node"], trace.frame(*patterns)
        except (OSError, RuntimeError, KeyError, ValueError) as error:  # h5py has all of these for damaged files
            warnings.warn(f"{path}: left out: {error}", stacklevel=2)
            continue
        if len(part) and node not in parts:
            parts[node] = part
            units.update(part.attrs["units"])
    if not parts:
        frame = pandas.DataFrame()
        frame.attrs["units"] = {}
        return frame
    for part in parts.values():
        part.attrs = {}  # they differ between nodes, and concat() would compare them
    frame = pandas.concat(parts, names=["node", "time"])
    frame.attrs["units"] = units
    return frame


def _median(offsets):
    return numpy.sort(offsets)[(len(offsets) - 1) // 2]


def _offset(offsets, errors):
    """As hdf5schema/utc_offset.h: a wall clock that was set during the job does not move the times."""
    usual = offsets[0] if len(offsets) == 2 else _median(offsets)
    steps = numpy.flatnonzero(numpy.abs(numpy.diff(offsets)) > 50_000_000) + 1
    stretches = list(zip(numpy.split(offsets, steps), (part.min() for part in numpy.split(errors, steps))))
    longest = next(error for part, error in stretches if usual in part)
    best, least = min(stretches, key=lambda each: each[1])
    return _median(best) if least < longest // 2 else usual


class Trace:
    def __init__(self, path):
        path = str(path)
        self.file = h5py.File(path, "r", libver="latest", swmr=path.endswith(".part"))
        self.header = {key: _plain(value) for key, value in self.file.attrs.items()}
        if self.header.get("schema") != "reveal.trace":
            raise ValueError(f"{path}: not a trace of reveal")
        earlier = (path[:-len(".part")] if path.endswith(".part") else path) + ".earlier"
        if pathlib.Path(earlier).exists():
            warnings.warn(f"{path}: the rows before it are a trace of their own, {earlier}", stacklevel=3)
        self._families = []
        self.file.visititems(lambda _, item: self._families.append(item) if "kind" in item.attrs else None)
        clock = self.file["clock"][:]
        if len(clock):
            self._offset = _offset(clock["utc_ns"] - clock["monotonic_ns"], clock["max_error_ns"])
        else:
            first = min((family.file[f"/{_plain(family.attrs['time'])}"][0] for family in self._families
                         if len(family.file[f"/{_plain(family.attrs['time'])}"])), default=0)
            self._offset = self.header["begin_utc_ns"] - first

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def close(self):
        self.file.close()

    def metrics(self):
        """One row per channel: metric, instance, role, kind, units, subsystem, period (s), long_name."""
        rows = []
        for family in self._families:
            about = {key: _plain(family.attrs[key]) for key in ("kind", "subsystem", "period", "long_name")}
            units, _ = _scaled(family)
            rows += [{"metric": metric, "instance": instance, "role": role, "units": units, **about}
                     for metric, instance, role in _keys(family)]
        return pandas.DataFrame(rows)

    def frame(self, *patterns):
        """Channels whose metric, or metric/instance, meets one of the shell patterns ("cpu.*", "net.rx_bytes/eth0").

        Columns (metric, instance); `attrs["units"]` has the unit of every metric. Channels of different periods share
        one index: a slow one is NaN between its samples.
        """
        parts, units = [], {}
        for family in self._families:
            keys = _keys(family)
            chosen = [i for i, (metric, instance, _) in enumerate(keys)
                      if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns
                                             for name in (metric, f"{metric}/{instance}"))]
            if not chosen:
                continue
            unit, scale = _scaled(family)
            times = family.parent[_plain(family.attrs["time"]).split("/")[-1]][:]
            rows = min(len(times), family.shape[1])  # of a .part, the axis may be a flush ahead
            raw = family[chosen[0]:chosen[-1] + 1, :rows][[i - chosen[0] for i in chosen]]
            values = numpy.where(raw == _MISSING, numpy.nan, raw).astype(float)
            if scale is not None and rows:
                covered = _seconds(values, times[:rows])
                if family.name.startswith("/stack/"):
                    covered[covered > _LONGEST_GAP * float(_plain(family.attrs["period"]))] = numpy.nan
                values *= scale / covered
            index = pandas.to_datetime(times[:rows] + self._offset, utc=True)
            columns = pandas.MultiIndex.from_tuples([keys[i][:2] for i in chosen], names=["metric", "instance"])
            units.update({keys[i][0]: unit for i in chosen})
            part = pandas.DataFrame(values.T, index=index, columns=columns)
            parts.append(part.loc[:, ~part.columns.duplicated()])
        frame = pandas.concat(parts, axis=1).sort_index() if parts else pandas.DataFrame()
        frame.index.name = "time"
        frame.attrs["units"] = units
        return frame

    def events(self):
        """What happened: object, code, text by time."""
        return self._table("events")

    def steps(self):
        """Training steps by the time they began: rank, number, duration, waiting and garbage collections (gc) in seconds,
        bytes; NaN where not measured. Empty in traces without any."""
        if "steps" not in self.file:
            return pandas.DataFrame(columns=["rank", "number", "duration", "waiting", "gc", "bytes"])
        table = self.file["steps"][:]
        index = pandas.to_datetime(table["begin_ns"] + self._offset, utc=True).rename("time")
        known = {name: numpy.where(table[name] == _MISSING, numpy.nan, table[name].astype(float))
                 if name in table.dtype.names else numpy.nan  # of an earlier version
                 for name in ("duration_ns", "waiting_ns", "gc_ns", "bytes")}
        return pandas.DataFrame({"rank": [_plain(rank) for rank in table["rank"]], "number": table["number"],
                                 "duration": known["duration_ns"] * 1e-9, "waiting": known["waiting_ns"] * 1e-9,
                                 "gc": known["gc_ns"] * 1e-9, "bytes": known["bytes"]}, index=index)

    def collectives(self):
        """Collectives by the time a rank entered them, some in each second: rank, function, communicator, ranks and id (0
        where not known), number, last (1: of a process that had ended). Empty in traces without any."""
        if "collectives" not in self.file:
            return pandas.DataFrame(columns=["rank", "function", "communicator", "ranks", "id", "number", "last"])
        table = self.file["collectives"][:]
        index = pandas.to_datetime(table["begin_ns"] + self._offset, utc=True).rename("time")
        return pandas.DataFrame({name: [_plain(text) for text in table[name]] if name in ("rank", "function")
                                 else table[name]
                                 for name in table.dtype.names if name != "begin_ns"}, index=index)

    def snapshot(self):
        """The node's configuration at the begin, with what had changed at the end."""
        entries = {}
        for name in ("node/begin", "node/end"):
            if name in self.file:
                entries.update({_plain(row["key"]): _plain(row["value"]) for row in self.file[name][:]})
        return entries

    def coverage(self):
        """Which probes worked, which did not and why."""
        table = self.file["coverage"][:]
        return pandas.DataFrame({name: [_plain(x) for x in table[name]] for name in table.dtype.names})

    def _table(self, name):
        table = self.file[name][:]
        index = pandas.to_datetime(table["time_ns"] + self._offset, utc=True).rename("time")
        return pandas.DataFrame({column: [_plain(x) for x in table[column]]
                                 for column in table.dtype.names if column != "time_ns"}, index=index)


def _traces(directory):
    """Closed traces before those still being recorded; neither the merged file nor a rewritten copy. Those of more than
    1,000 nodes are in folders, nodes-3f."""
    def found(ending):
        folders = "nodes-[0-9a-f][0-9a-f]/"
        return sorted([*directory.glob("*" + ending), *directory.glob(folders + "*" + ending)], key=lambda path: path.name)
    closed = [path for path in found(".h5") if path.name != "job.h5" and not path.name.endswith(".recovered.h5")]
    traces = [path for path in closed + found(".h5.part") if not path.name.startswith(".")]
    if not traces:
        raise FileNotFoundError(f"no trace (NODE.h5 or NODE.h5.part) in {directory}")
    return traces


def _plain(value):
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, numpy.generic) else value


def _keys(family):
    """(metric, instance, role) of every channel; of a .part, the keys may be a flush ahead of the rows."""
    columns = [family.dims[0][name].asstr()[:] for name in ("metric", "instance", "role")]
    return list(zip(*columns))[:family.shape[0]]


def _scaled(family):
    """The unit of what frame() gives, and the factor from increments to it; None: values are levels."""
    units = _plain(family.attrs["units"])
    if _plain(family.attrs["stored"]) != "increments":
        return units, None
    return _RATES.get(units, (units + "/s", 1.0))


def _seconds(values, times):
    """What each increment covers: the time since the channel's previous value, or since the row before its first."""
    rows = numpy.arange(values.shape[1])
    latest = numpy.maximum.accumulate(numpy.where(numpy.isnan(values), -1, rows), axis=1)
    before = numpy.hstack([numpy.full((len(values), 1), -1), latest[:, :-1]])
    before = numpy.where(before < 0, rows - 1, before)
    return numpy.where(before < 0, numpy.nan, times[rows] - times[before]) / 1e9
