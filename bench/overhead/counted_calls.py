"""The calls in the trace of a collector with --stack: a measurement beside which nothing was counted is none."""
import collections
import dataclasses
import pathlib
import statistics


class NoResult(Exception):
    pass


@dataclasses.dataclass
class Counted:
    way: str                      # with the costs of a call that the collector measured
    attached: list[str]           # functions, by name
    per_second: dict[str, float]  # calls of those that were attached from the begin on, in all ranks
    rested: set[str]              # those that were detached meanwhile, because they cost too much


def counted_calls(path: pathlib.Path, begin: float, end: float) -> Counted:
    """In this time of the steady clock. Raises NoResult."""
    import h5py
    per_second = collections.Counter()
    try:
        file = h5py.File(path)
    except OSError as reason:
        raise NoResult(f"the trace is not there: {reason}") from reason
    with file as trace:
        facts = {row["key"].decode(): row["value"].decode() for part in ("begin", "end") for row in trace[f"node/{part}"][:]}
        reasons = [row["reason"].decode() for row in trace["coverage"][:] if row["probe"] == b"stack"]
        if "stack/calls" in trace:
            family, channels = trace["stack/calls"], trace["stack/calls_channels"]
            times = family.dims[1][0][:] / 1e9
            at_begin = abs(times - begin) <= 2  # an answer may come a row late
            inside = (times >= begin) & (times <= end)
            for row, metric, instance in zip(family[:], channels["metric"].asstr()[:], channels["instance"].asstr()[:]):
                known = row != family.fillvalue
                if metric == "stack.calls" and known[at_begin].any():
                    per_second[instance.split("/")[-1]] += int(row[known & inside].sum()) / (end - begin)
        rested = {row["object"].decode() for row in trace["events"][:]
                  if row["code"] == b"function_rests" and begin <= row["time_ns"] / 1e9 <= end}
    if not sum(per_second.values()):
        raise NoResult(f"nothing was counted: {'; '.join(filter(None, reasons)) or 'no call was seen'}")
    return Counted(facts.get("stack.way", "not known"), facts.get("stack.functions", "").split(), dict(per_second), rested)


def summary(windows: list[Counted]) -> str:
    calls = collections.defaultdict(list)
    for window in windows:
        for function, each in window.per_second.items():
            calls[function].append(each)
    attached = [len(window.attached) for window in windows]
    rested = collections.Counter(function for window in windows for function in window.rested)
    return (f"{windows[0].way}; {min(attached)} to {max(attached)} functions attached; calls/s, median: "
            + ", ".join(f"{name} {statistics.median(each):.0f}" for name, each in sorted(calls.items()))
            + "; rested: " + (", ".join(f"{name} in {n} of {len(windows)}" for name, n in rested.items()) or "none"))


def median_calls(windows: list[Counted]) -> float:
    return statistics.median(sum(window.per_second.values()) for window in windows)
