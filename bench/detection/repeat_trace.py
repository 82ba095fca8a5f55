#!/usr/bin/python3
"""A trace of days from one of an hour, in seconds: its compressed chunks again and again, in random order.

  bench/detection/repeat_trace.py TRACE OUT TIMES

TRACE: as `tile_trace` makes it, whose chunks are minutes; OUT: the new trace, TIMES as long. Analysing it costs what a
job of that length costs; its levels jump at every minute, so what is found in it means nothing. Bases of counters are
left out: analysis reads increments only."""
import argparse

import h5py
import numpy as np

SCALES = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_FillValue")


def copy_attributes(old, new):
    for name in old.attrs:
        if name not in SCALES:
            new.attrs.create(name, old.attrs[name], dtype=old.attrs.get_id(name).dtype)


def datasets(trace):
    """Families, and their time axes by name: those of one name are one dataset."""
    families, axes = [], {}

    def visit(path, item):
        if isinstance(item, h5py.Dataset) and "kind" in item.attrs:
            families.append(path)
            name = item.attrs["time"].decode()
            axes.setdefault(name, set()).add(path.rsplit("/", 1)[0] + "/" + name)
    trace.visititems(visit)
    return families, axes


def copy_rest(old, new, left_out):
    def visit(path, item):
        if isinstance(item, h5py.Group):
            new.require_group(path)
        elif path not in left_out:
            copy = new.create_dataset(path, data=item[()], dtype=item.dtype, maxshape=item.maxshape, chunks=item.chunks)
            copy_attributes(item, copy)
    old.visititems(visit)


def repeat_axis(old, new, paths, times):
    first, *others = sorted(paths)
    ticks = old[first][()]
    span = ticks[-1] - ticks[0] + (ticks[1] - ticks[0])
    new.create_dataset(first, data=np.concatenate([ticks + i * span for i in range(times)]), chunks=old[first].chunks,
                       maxshape=(None,))
    for path in others:
        new[path] = new[first]


def repeat_family(old, new, times, random):
    (channels, rows), (wide, long) = old.shape, old.chunks
    whole = rows // long
    wanted = -(-rows * times // long)
    order = np.concatenate([np.arange(whole)] + [random.permutation(whole) for _ in range(wanted // whole + 1)])[:wanted]
    for c in range(0, channels, wide):
        chunks = [old.id.read_direct_chunk((c, k * long)) for k in range(whole)]
        for k, source in enumerate(order):
            mask, data = chunks[source]
            new.id.write_direct_chunk((c, k * long), data, mask)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out")
    parser.add_argument("times", type=int)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    with h5py.File(options.trace, "r") as old, h5py.File(options.out, "w", libver=("v110", "v110")) as new:
        copy_attributes(old, new)
        families, axes = datasets(old)
        copy_rest(old, new, set(families).union(*axes.values(), (family + "_base" for family in families)))
        for paths in axes.values():
            repeat_axis(old, new, paths, options.times)
        for path in families:
            family = old[path]
            copy = new.create_dataset(path, shape=(family.shape[0], family.shape[1] * options.times), dtype=family.dtype,
                                      chunks=family.chunks, maxshape=(family.maxshape[0], None), shuffle=family.shuffle,
                                      compression=family.compression, compression_opts=family.compression_opts,
                                      fletcher32=family.fletcher32, fillvalue=family.fillvalue)
            copy_attributes(family, copy)
            repeat_family(family, copy, options.times, random)


if __name__ == "__main__":
    main()
