#!/usr/bin/python3
"""The detectors beside scikit-learn, on the same matrices and one thread.

  bench/detection/speed.py [--bench BIN] [--windows 600] [--features 4200]

Prints seconds of both (median of three runs for scikit-learn, five for reveal, processor time), their ratio, and how far
the results are apart: the largest relative difference where the method is determined, the rank correlation where it is
random (Isolation Forest). The matrix is standardised noise with recurring phases, common factors and 2 % of
strange windows."""
import argparse
import os
import subprocess
import sys
import tempfile
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import NearestNeighbors


def matrix(windows, features):
    random = np.random.default_rng(3)
    factors = random.standard_normal((windows, 30)) + 2 * (np.arange(windows)[:, None] // 40 % 3 == 0)
    x = factors @ random.standard_normal((30, features)) * random.uniform(0, 1, features)
    x += random.standard_normal((windows, features))
    strange = random.choice(windows, max(1, windows // 50), replace=False)
    x[strange] *= random.uniform(1.5, 3, (len(strange), features))
    return (x - x.mean(axis=0)) / x.std(axis=0)


def mahalanobis(x):
    pca = PCA(n_components=0.95, svd_solver="full", whiten=True)
    return np.sqrt((pca.fit_transform(x) ** 2).sum(axis=1))


def forest(x, seed=0):
    return -IsolationForest(n_estimators=100, contamination=0.01, random_state=seed).fit(x).score_samples(x)


def neighbours(x, k):
    found = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(x).kneighbors(x)[0]
    return found[:, k]  # the first one is the row itself


def timed(work):
    times = []
    for _ in range(3):
        begin = time.process_time()
        result = work()
        times.append(time.process_time() - begin)
    return sorted(times)[1], result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/bin/window_detector_bench", metavar="BIN")
    parser.add_argument("--windows", type=int, default=600)
    parser.add_argument("--features", type=int, default=4200)
    options = parser.parse_args()
    x = matrix(options.windows, options.features)
    pca = PCA(n_components=40, svd_solver="full").fit(x)
    few = pca.transform(x)
    peers = {
        "zscore": (lambda: np.abs(x).mean(axis=1), "difference"),
        "mahalanobis": (lambda: mahalanobis(x), "difference"),
        "isolation_forest": (lambda seed=0: forest(x, seed), "rank"),
        "principal_components": (lambda: PCA(n_components=40, svd_solver="randomized", random_state=0).fit(x)
                                 .explained_variance_, "exact variances"),
        "neighbours": (lambda: neighbours(x, 30), "difference"),
        "neighbours_20": (lambda: neighbours(few[:, :20], 30), "difference"),
        "isolation_forest_20": (lambda seed=0: forest(few[:, :20], seed), "rank"),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "matrix")
        np.asfortranarray(x).T.tofile(path)
        done = subprocess.run([options.bench, path, str(x.shape[0]), str(x.shape[1]), folder], capture_output=True,
                              text=True)
        if done.returncode != 0:
            sys.exit(f"{options.bench}: {done.stderr.strip()}")
        ours = {name: float(seconds) for name, seconds in (line.split() for line in done.stdout.splitlines())}
        print(f"{options.windows} windows x {options.features} features, one thread")
        print("| detector | scikit-learn s | reveal s | times faster | agreement |")
        print("|---|---|---|---|---|")
        for name, (work, compare) in peers.items():
            seconds, theirs = timed(work)
            mine = np.loadtxt(os.path.join(folder, name + ".csv"))
            if compare == "rank":
                again = spearmanr(work(1), theirs)[0]
                agreement = f"rank correlation {spearmanr(mine, theirs)[0]:.3f} (two seeds of scikit-learn: {again:.3f})"
            else:
                if compare == "exact variances":
                    theirs = pca.explained_variance_
                difference = np.max(np.abs(mine - theirs)) / np.max(np.abs(theirs))
                agreement = f"largest difference {difference:.1e} of the largest value"
            print(f"| {name} | {seconds:.4f} | {ours[name]:.4f} | {seconds / ours[name]:.1f} | {agreement} |", flush=True)


if __name__ == "__main__":
    main()
