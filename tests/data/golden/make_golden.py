#!/usr/bin/python3
"""Writes the reference values that scikit-learn and statsmodels give for the series beside this file.

Run by hand with Debian's python3-sklearn and python3-statsmodels; its output is committed.
features.csv, series.csv, if_X.csv and if_score.csv came with the series and are not rewritten."""
import csv
import os
import warnings

import numpy as np
from scipy.stats import kurtosis, linregress, skew
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from statsmodels.tsa.stattools import adfuller, kpss

warnings.filterwarnings("ignore")
here = os.path.dirname(os.path.abspath(__file__))
x = np.loadtxt(f"{here}/if_X.csv", delimiter=",")

with open(f"{here}/mahalanobis.csv", "w", newline="") as out:
    write = csv.writer(out, lineterminator="\n").writerow
    write(["case", "row", "value"])
    for case, rows in (("tall", x), ("wide", x[:10])):
        z = (rows - rows.mean(0)) / rows.std(0)
        pca = PCA(n_components=0.95, svd_solver="full").fit(z)
        distance = np.sqrt((pca.transform(z) ** 2 / pca.explained_variance_).sum(1))
        for row, value in enumerate(distance):
            write([case, row, repr(float(value))])

rows = x.astype(np.float32)
forest = IsolationForest(n_estimators=3, max_samples=64, random_state=1).fit(rows)
with open(f"{here}/if_trees.csv", "w", newline="") as out:
    write = csv.writer(out, lineterminator="\n").writerow
    write(["tree", "feature", "threshold", "left", "right", "size"])
    for number, tree in enumerate(forest.estimators_):
        t = tree.tree_
        for node in range(t.node_count):
            leaf = t.children_left[node] < 0
            write([number, -1 if leaf else t.feature[node], repr(float(t.threshold[node])),
                   0 if leaf else t.children_left[node], 0 if leaf else t.children_right[node],
                   t.n_node_samples[node]])
with open(f"{here}/if_trees_score.csv", "w") as out:
    out.writelines(f"{-s!r}\n" for s in forest.score_samples(rows).astype(float))

# Around 1e9 tsfresh's and statsmodels' own sums lose up to all digits. None of these depends on the level, so the
# same references give the right values once it is taken off.
with open(f"{here}/series.csv") as lines:
    large = next(r for r in csv.reader(lines) if r[0] == "large")
x = np.array(large[1:], float) - 1e9
n, d = len(x), x - x.mean()
trend = linregress(np.arange(n), x)
adf = adfuller(x, maxlag=1, autolag=None)
values = {
    "variance": x.var(), "standard_deviation": x.std(),
    "skewness": skew(x, bias=False), "kurtosis": kurtosis(x, bias=False),
    '"trend_attr_""slope"""': trend.slope, '"trend_attr_""rvalue"""': trend.rvalue,
    "autocorr_1": (d[:-1] * d[1:]).sum() / ((n - 1) * x.var()),
    "autocorr_5": (d[:-5] * d[5:]).sum() / ((n - 5) * x.var()),
    "mean_abs_change": np.abs(np.diff(x)).mean(),
    "kpss4_stat": kpss(x, regression="c", nlags=4)[0],
    "adf_lag1_stat": adf[0], "adf_lag1_p": adf[1],
}
with open(f"{here}/large.csv", "w") as out:
    out.write("series,feature,value\n")
    out.writelines(f"large,{name},{float(value)!r}\n" for name, value in values.items())
