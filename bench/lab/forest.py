#!/usr/bin/env python3
"""A real Python job: loads a data set from disk, trains random forests, saves models. Usage: forest.py SECONDS [JOBS]"""
import os
import pickle
import sys
import tempfile
import time

import numpy as np
from sklearn.ensemble import RandomForestClassifier

seconds, jobs = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
end = time.monotonic() + seconds
rng = np.random.default_rng(7)
with tempfile.TemporaryDirectory() as scratch:
    data = os.path.join(scratch, "data.npy")
    np.save(data, rng.normal(size=(20000, 40)))
    epoch = 0
    while time.monotonic() < end:
        values = np.load(data)
        labels = (values[:, :5].sum(axis=1) + rng.normal(size=len(values)) > 0).astype(int)
        model = RandomForestClassifier(n_estimators=8, max_depth=12, n_jobs=jobs, random_state=epoch)
        model.fit(values[:15000], labels[:15000])
        model.score(values[15000:], labels[15000:])
        if epoch % 5 == 4:
            path = os.path.join(scratch, f"model{epoch % 3}.pkl")
            with open(path, "wb") as out:
                pickle.dump(model, out)
                out.flush()
                os.fsync(out.fileno())
        epoch += 1
