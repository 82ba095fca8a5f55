#!/usr/bin/python3
"""reveal acts on a job whose threads crowd on one of its two cpus, as an ordinary user, where the site allows it: the
threads get both, the report tells the effect, and everything that must stay as it was does. It needs idle cpus;
intervention_refused_test.py does not."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end  # noqa: E402
from intervention_site import RULE, Site, first, interventions, second  # noqa: E402


def effect(result, metric):
    return next(one for one in result["effects"] if one["metric"] == metric)


with tempfile.TemporaryDirectory() as folder:
    site = Site(pathlib.Path(folder))
    narrow, wide = [first], [first, second]

    print("== a crowd, where the site allows it")
    site.allow(f'[intervention]\nrules = ["{RULE}"]\n')
    masks, report = site.run("helped", "crowd", 1, 15)  # it takes twelve seconds to measure the effect
    check(RULE in site.told, f"the collector does not know that it may act: {site.told}")
    site.judge(masks == [[narrow, wide]] * 4, f"the cpus of its threads: {masks}")
    found = interventions(report)
    site.judge(len(found) == 1 and found[0]["outcome"] == "kept", f"told: {found}")
    if found:
        print(found[0]["sentence"])
        used, waited = effect(found[0], "job.cpu_time"), effect(found[0], "job.wait_time")
        site.judge(0.8 < used["mean_before"] < 1.1 and used["change_low"] > 0.1, f"cpus used: {used}")
        site.judge(waited["mean_before"] > 2 and waited["change_high"] < -0.5, f"threads without a cpu: {waited}")
        check("without taskset" in " ".join(one for finding in report["findings"] for one in finding["remedy"]["advice"]),
              "the permanent remedy is missing")
        page = " ".join(site.show("helped").split())
        check(" ".join(found[0]["sentence"].split()) in page, f"the page does not tell it: {page}")

    print("== a crowd that more cpus do not help")
    masks, report = site.run("useless", "useless", 2, 1)
    site.judge(all(one[:2] == [narrow, wide] and one[-1] == narrow for one in masks), f"the cpus of its threads: {masks}")
    found = interventions(report)
    site.judge([one["outcome"] for one in found] == ["undone"], f"told: {found}")

    print("== threads that are bound, two to each cpu")
    masks, report = site.run("bound", "bound", 0, 15)
    check(masks == [[[first]], [[second]]] * 2, f"the cpus of its threads: {masks}")
end()
