#!/usr/bin/python3
"""reveal leaves a job alone whose threads crowd on one of its two cpus, where the user refuses or the site does not allow
it: the collector is told of no rule on which it may act."""
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end  # noqa: E402
from intervention_site import RULE, Site, first, interventions  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    site = Site(pathlib.Path(folder))
    # A collector that is told of no rule leaves a crowd alone, as the last case shows.
    print("== a user who refuses")
    site.allow(f'[intervention]\nrules = ["{RULE}"]\n')
    for name, options, variables in (("option", ["--no-intervene"], {}), ("variable", [], {"REVEAL_INTERVENE": "off"})):
        site.run(name, "crowd", 0, 3, options, variables)
        check(site.told and "--intervene" not in site.told, f"{name}: the collector may act: {site.told}")

    print("== a site that allows nothing, and a user who would")
    site.allow("")
    mine = pathlib.Path(folder) / "config/reveal"
    mine.mkdir(parents=True)
    (mine / "reveal.conf").write_text(f'[intervention]\nrules = ["{RULE}"]\n')
    masks, report = site.run("user", "crowd", 0, 15, (), {"XDG_CONFIG_HOME": str(mine.parent), "REVEAL_INTERVENE": "on"})
    check(site.told and "--intervene" not in site.told, f"the collector may act: {site.told}")
    check(masks == [[[first]]] * 4, f"the cpus of its threads: {masks}")
    check(not interventions(report), "a refusal that was none")
end()
