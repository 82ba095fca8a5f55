#!/usr/bin/python3
"""axe-core in Chromium on the pages of the sample reports and on the HTML of their mails: no violation that it calls
serious or critical, in light and dark, on a desktop and on a phone, with everything unfolded.

The rules that are run are those of the groups in GROUPS; the test prints how many of them applied to a page at all."""
import collections
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from browser import DESKTOP, PHONE, Browser, need_chromium, sample_pages  # noqa: E402
from harness import check, end, npm_package  # noqa: E402

# WCAG 2.0, 2.1 and 2.2, levels A and AA, and what axe-core calls good practice.
GROUPS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
GRAVE = ("serious", "critical")
VIEWS = ((DESKTOP, "light"), (DESKTOP, "dark"), (PHONE, "light"))
PAGES = ("healthy", "outsider", "many_nodes", "nodes_64", "hostile", "insufficient", "failed", "chain")
RUN = f"""axe.run(document, {{ runOnly: {json.dumps(GROUPS)}, resultTypes: ['violations'] }}).then((result) => ({{
  applied: [...result.passes, ...result.violations].map((rule) => rule.id),
  violations: result.violations.map((rule) => [rule.impact, rule.id, rule.nodes.length, rule.nodes[0].html.slice(0, 160)]),
}}))"""


def result_of(browser, page, axe, before=""):
    browser.open(page)
    browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    browser.value(before + axe + ";0")
    return browser.value(RUN)


def check_page(browser, page, axe, applied, others):
    for size, scheme in VIEWS:
        browser.resize(size, scheme)
        result = result_of(browser, page, axe)
        applied.update(result["applied"])
        for impact, rule, count, first in result["violations"]:
            check(impact not in GRAVE, f"{page.name}, {size[0]} pixels, {scheme}: {impact}: {rule}, {count} times: {first}")
            if impact not in GRAVE:
                others[f"{'mail' if page.name.startswith('mail_') else 'page'}, {impact}: {rule}"] += 1


def check_that_it_finds(browser, page, axe):
    """A button without a name, and faint text."""
    planted = """{ const one = document.createElement('p'); one.innerHTML = '<button></button> faint';
        one.style.color = '#ccc'; one.style.background = '#fff'; document.querySelector('main').append(one); }"""
    found = {rule for impact, rule, _, _ in result_of(browser, page, axe, planted)["violations"] if impact in GRAVE}
    check(found == {"button-name", "color-contrast"}, f"planted faults: axe-core found {found}")


def main():
    need_chromium()
    axe = (npm_package("axe-core") / "axe.min.js").read_text()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pages = [page for page in sample_pages(folder) if page.stem.removeprefix("mail_") in PAGES]
        check({page.stem for page in pages} >= {*PAGES, "mail_outsider"}, f"pages: {pages}")
        browser = Browser(folder + "/profile")
        applied, others = set(), collections.Counter()
        try:
            for page in pages:
                check_page(browser, page, axe, applied, others)
            check_that_it_finds(browser, pathlib.Path(folder, "healthy.html"), axe)
        finally:
            browser.end()
        print(f"{len(pages)} pages, {len(VIEWS)} views each; {len(applied)} rules applied: {' '.join(sorted(applied))}")
        for other, times in sorted(others.items()):
            print(f"allowed: {other}, {times} times")
        check({"color-contrast", "label", "image-alt", "heading-order"} <= applied, "rules that must apply did not")
    end()


main()
