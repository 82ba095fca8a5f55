"""Intervals of longer training steps by change points of the steps' durations: fail_slow.py compares them with the report.

The median duration of the steps of each second, as logarithm, is cut into segments of constant level with the least sum
of squares and, by BIC, twice the logarithm of the length for each segment, in units of the noise (optimal partitioning:
https://arxiv.org/abs/1101.1438). Segments at least 10 % above the lower quartile are intervals. A rank is late if its time
in collectives grew by less than half of a step's growth: the others wait for it there."""
import pathlib

import h5py
import numpy

LEAST_GROWTH, LEAST_SECONDS = 0.1, 5


def segments(values: numpy.ndarray) -> list[tuple[int, int]]:
    count = len(values)
    noise = max(1e-6, numpy.median(numpy.abs(numpy.diff(values))) / 0.954)  # standard deviation, of normal differences
    sums, squares = (numpy.concatenate([[0], numpy.cumsum(each)]) for each in (values, values**2))
    best, last = numpy.full(count + 1, numpy.inf), numpy.zeros(count + 1, int)
    best[0] = 0
    for end in range(LEAST_SECONDS, count + 1):
        begins = numpy.arange(end - LEAST_SECONDS + 1)
        spread = squares[end] - squares[begins] - (sums[end] - sums[begins])**2 / (end - begins)
        totals = best[begins] + spread / noise**2 + 2 * numpy.log(count)
        last[end], best[end] = numpy.argmin(totals), numpy.min(totals)
    bounds = [count]
    while bounds[-1] > 0:
        bounds.append(int(last[bounds[-1]]))
    return list(zip(bounds[:0:-1], bounds[-2::-1]))


def longer_steps(folder: pathlib.Path) -> list[dict]:
    """By the traces of a job, one for each rank: begin and end in seconds of the steady clock, and the late ranks."""
    traces = [h5py.File(path) for path in sorted(folder.glob("*.h5"))]
    if not traces or not all("steps" in trace and "stack/time" in trace for trace in traces):
        return []
    steps, found = traces[0]["steps"][:], []
    steps = steps[steps["duration_ns"] > 0]
    seconds = steps["begin_ns"] // 1_000_000_000
    times = numpy.unique(seconds)
    if len(times) < 2 * LEAST_SECONDS:
        return []
    lasted = numpy.array([numpy.median(steps["duration_ns"][seconds == each]) for each in times]) / 1e9
    for begin, end in segments(numpy.log(lasted)):
        if numpy.median(lasted[begin:end]) >= (1 + LEAST_GROWTH) * numpy.quantile(lasted, 0.25):
            if not found or found[-1]["end"] < times[begin]:
                found.append({"begin": times[begin]})
            found[-1]["end"] = times[end - 1] + 1
    calm = lambda at: ~numpy.any([(at >= one["begin"] - 1) & (at < one["end"] + 1) for one in found], axis=0)
    for one in found:
        inside = lambda at: (at >= one["begin"]) & (at < one["end"])
        growth, own = numpy.median(lasted[inside(times)]) - numpy.median(lasted[calm(times)]), []
        for trace in traces:  # of the time in collectives in a step
            row = list(trace["stack/time_channels/metric"].asstr()[:]).index("stack.communication")
            at, share = trace["stack/time"].dims[1][0][:] / 1e9, trace["stack/time"][row] / 1e9
            part = lambda where: numpy.median(share[where(at) & (share >= 0)]) * numpy.median(lasted[where(times)])
            own.append(part(inside) - part(calm))
        one["late"] = [rank for rank, each in enumerate(own) if each < growth / 2]
    return found
