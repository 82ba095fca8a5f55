#!/usr/bin/python3
"""The pages of the sample reports in Chromium: nothing fails, nothing is fetched, nothing is wider than the window, texts
have contrast; the first screen has cause, place, cost and remedy; copying, filtering, zooming, resizing and showing one
node do what they say. Prints the size and the load time of each page, those of jobs of 4, 64 and 1,024 nodes among them."""
import json
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from browser import DESKTOP, PHONE, Browser, need_chromium, sample_pages  # noqa: E402
from harness import check, end, fail  # noqa: E402

READABLE = 4.5  # WCAG 2 AA, contrast of normal text

# Texts with less contrast than READABLE against what lies behind them.
FAINT = """(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
      .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour.length === 3) return colour;
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  for (const element of document.querySelectorAll('body *')) {
    if (!Array.from(element.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!element.checkVisibility() || element.closest('script, .chart')) continue;
    const [low, high] = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => a - b);
    if ((high + 0.05) / (low + 0.05) < LEAST) faint.add(element.tagName + '.' + element.className);
  }
  return Array.from(faint);
})()""".replace("LEAST", str(READABLE))


def check_quiet(browser, page):
    """Neither errors nor requests, as the events since the page was opened tell."""
    for event in browser.events:
        method, what = event.get("method", ""), event.get("params", {})
        if method == "Network.requestWillBeSent" and what["request"]["url"] != page.as_uri():
            check(what["request"]["url"].startswith("data:"), f"{page.name} fetches {what['request']['url']}")
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            fail(f"{page.name}: {json.dumps(what)[:400]}")


def check_every_page(browser, page):
    for size, scheme in ((DESKTOP, "light"), (PHONE, "light"), (DESKTOP, "dark")):
        browser.resize(size, scheme)
        browser.open(page)
        browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        where = f"{page.name}, {size[0]} pixels, {scheme}"
        width = browser.value("document.documentElement.scrollWidth")
        check(width <= size[0], f"{where}: {width} pixels wide")
        check(not (faint := browser.value(FAINT)), f"{where}: little contrast: {faint}")
        check(browser.value("document.querySelectorAll('.chart canvas').length >= "
                            "(document.getElementById('charts') ? 1 : 0)"), f"{where}: no charts")
        check_quiet(browser, page)


def check_copy(browser):
    browser.value("""{ window.kept = []; Object.defineProperty(navigator, 'clipboard', { value: {
        writeText: (text) => { window.kept.push(text); return Promise.resolve(); } } }); }""")
    browser.value("document.querySelector('button.copy').click()")
    check(browser.value("window.kept") == ["#SBATCH --exclusive"], f"copied: {browser.value('window.kept')}")
    check(browser.value("document.querySelector('button.copy').textContent") == "Copied", "the button does not tell")


def check_filter(browser):
    rows = "[...document.querySelector('input.filter').parentNode.querySelectorAll('tbody tr')]"
    everything = browser.value(f"{rows}.length")
    browser.value("""{ const field = document.querySelector('input.filter'); field.value = 'N03';
        field.dispatchEvent(new Event('input')); }""")
    left = browser.value(f"{rows}.filter((row) => getComputedStyle(row).display !== 'none')"
                         ".map((row) => row.cells[0].textContent)")
    check(everything > 8 and left == ["n03"], f"the filter leaves {left} of {everything}")
    check(browser.value("document.querySelector('.filtered').textContent") == f"1 of {everything}", "no count of rows")


def axis(browser):
    return browser.value("[...document.querySelectorAll('.chart.last .dygraph-axis-label-x')]"
                         ".map((label) => parseFloat(label.textContent))")


def check_zoom(browser):
    whole = axis(browser)
    browser.value("document.querySelector('.chart').scrollIntoView({ block: 'center' })")
    box = browser.value("(({ x, y, width, height }) => ({ x, y, width, height }))"
                        "(document.querySelector('.chart canvas').getBoundingClientRect())")
    y = box["y"] + box["height"] / 2
    left, right = (box["x"] + box["width"] * part for part in (0.5, 0.7))
    browser.mouse("Moved", left, y)
    browser.mouse("Pressed", left, y)
    browser.mouse("Moved", right, y)
    browser.mouse("Released", right, y)
    zoomed = axis(browser)
    check(min(zoomed) > min(whole) and max(zoomed) < max(whole), f"dragging zooms from {whole} to {zoomed}")
    browser.mouse("Moved", left, y)
    check(" UTC" in browser.value("document.querySelector('.reading').textContent"), "no reading below the pointer")
    browser.value("document.querySelector('#timeline-controls button').click()")
    check(axis(browser) == whole, f"the button for the whole job leaves {axis(browser)}")


def check_node(browser):
    """By keyboard."""
    shown = ("[...new Set([...document.querySelectorAll('[data-node]')].filter((part) => part.checkVisibility())"
             ".map((part) => part.dataset.node))].sort()")
    before = browser.value(shown)
    browser.value("document.querySelector('table.map button').focus()")
    browser.enter()
    check(browser.value(shown) == ["n01"], f"beside n01: {browser.value(shown)}")
    check(browser.value("document.querySelectorAll('.chart.last .dygraph-axis-label-x').length") > 1,
          "the last chart of n01 has no axis")
    browser.value("document.querySelector('#one-node button').focus()")
    browser.enter()
    check(set(browser.value(shown)) >= set(before), "not all nodes are back")
    check(browser.value("document.activeElement.textContent") == "n01", "the keyboard has lost its place")
    check(browser.value("document.querySelector('#one-node[role=status]').textContent") == "", "a notice is left")


def check_links(browser):
    """A link unfolds its finding where the browser does not do so: its own way there is cut off."""
    unfolded = browser.value("""(() => {
      const card = document.querySelector('.card');
      const folds = [1, 2].map(() => document.createElement('details'));
      card.before(folds[0]);
      folds[0].append(folds[1]);
      folds[1].append(card);
      window.addEventListener('click', (event) => event.preventDefault(), { once: true });
      document.querySelector('h1 a').click();
      const open = folds.map((fold) => fold.open);
      folds[0].replaceWith(card);
      return open;
    })()""")
    check(unfolded == [True, True], f"unfolded: {unfolded}")


def check_print(browser):
    """Paper has neither folds nor scroll bars: nothing of a finding is lost on it."""
    browser.value("""{ document.querySelector('.card').append(document.createElement('details'));
        for (const name of ['beforeprint', 'afterprint']) window.dispatchEvent(new Event(name)); }""")
    folded = browser.value("document.querySelectorAll('.card details:not([open]), details.findings:not([open])').length")
    check(folded == 0, f"{folded} folds of findings are closed on paper")
    browser.call("Emulation.setEmulatedMedia", media="print")
    cut = browser.value("[...document.querySelectorAll('.scroll')]"
                        ".filter((one) => getComputedStyle(one).overflowX !== 'visible').length")
    browser.call("Emulation.setEmulatedMedia", media="")
    check(cut == 0, f"{cut} tables are cut on paper")


def check_scales(browser, page):
    """One number on an axis is no scale, also where values lie on both sides of zero."""
    values = '"values":' + json.dumps([-0.5, 0.7] * 60)
    changed = page.with_name("around_zero.html")
    changed.write_text(re.sub(r'"values":\[[^\]]*\]', values, page.read_text(), count=1))
    browser.open(changed)
    few = browser.value("""[...document.querySelectorAll('.channel')].filter((channel) => channel.checkVisibility() &&
        channel.querySelectorAll('.dygraph-axis-label-y').length < 2).map((channel) => channel.textContent.slice(0, 60))""")
    check(not few, f"charts without a scale: {few}")


def check_strips(browser):
    """The strips of phases keep the axis of the charts when the window changes, also while the first chart is hidden."""
    inside = """(() => {
      const [strip, chart] = ['.phases .track', '.chart canvas'].map((names) =>
          [...document.querySelectorAll(names)].find((one) => one.checkVisibility()).getBoundingClientRect());
      return [strip.left - chart.left, chart.right - strip.right].map(Math.round);
    })()"""
    browser.resize(DESKTOP)
    aligned = browser.value(inside)
    check(aligned[0] > 20, f"the strip begins at the axis: {aligned}")
    show = "[...document.querySelectorAll('table.map button')].find((one) => one.textContent === 'n02').click()"
    for pressed, size in ((None, (900, 800)), (show, (700, 800)), (None, DESKTOP)):
        if pressed:
            browser.value(pressed)
        browser.resize(size)
        browser.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        now = browser.value(inside)
        check(now == aligned, f"{size[0]} pixels, {'n02 alone' if pressed else 'as before'}: {now}, not {aligned}")
    browser.value("document.querySelector('#one-node button').click()")
    check(browser.value(inside) == aligned, "not aligned with all nodes")


def check_choices(browser):
    """The intervals of one detector, and of one subsystem."""
    rows = ("[...document.querySelector('select[aria-label=Subsystem]').parentNode.querySelectorAll('tbody tr')]"
            ".filter((row) => getComputedStyle(row).display !== 'none')")
    everything = browser.value(f"{rows}.length")

    def choose(column, value):
        browser.value(f"""{{ const select = document.querySelector('select[aria-label={column}]');
            select.value = '{value}'; select.dispatchEvent(new Event('change')); }}""")

    choose("Subsystem", "network")
    left = browser.value(f"{rows}.map((row) => row.querySelector('[data-label=Subsystem]').textContent)")
    check(0 < len(left) < everything and set(left) == {"network"}, f"of {everything} intervals: {left}")
    choose("Detectors", "GAP")
    check(browser.value(f"{rows}.length") == 0, "GAP found no interval of the network")
    choose("Subsystem", "")
    left = browser.value(f"{rows}.map((row) => row.querySelector('[data-label=Detectors]').textContent)")
    check(left and all(text.startswith("GAP") for text in left), f"found by GAP: {left}")
    choose("Detectors", "")
    check(browser.value(f"{rows}.length") == everything, "not all intervals are back")


def check_without_eyes(browser):
    """A chart has its numbers as a table: each interval against the rest."""
    rows = browser.value("[...document.querySelector('.channel .unseen table').rows].map((row) => row.textContent)")
    check(len(rows) == 3 and rows[0].startswith("Finding 1, 62 to 77 s0.98") and rows[-1].startswith("Rest of the job0.00"),
          f"job.outsider_cpu in numbers: {rows}")
    nameless = browser.value("""[...document.querySelectorAll('svg[role=img], [role=img], select, input, .unseen table')]
        .filter((one) => one.checkVisibility() && !one.getAttribute('aria-label') && !one.caption).map((one) => one.outerHTML.slice(0, 80))""")
    check(not nameless, f"without a name: {nameless}")


def unanswered(browser):
    """The questions of a reader that the first screen of a page with a finding leaves open."""
    return browser.value("""(() => {
      const card = document.querySelector('#finding-1');
      const terms = (names) => [...card.querySelectorAll('dt')].find((term) => names.includes(term.textContent));
      const steps = ['Job script', 'Start with', 'Run under', 'To change', 'Look', 'For you', 'For admins'];
      const answers = { verdict: document.querySelector('h1'), what: card.querySelector('h3'), 'how certain': card.querySelector('.level'),
          'which node': terms(['Where']).nextElementSibling, 'how much': terms(['Cost']).nextElementSibling, 'what to do': terms(steps) };
      return Object.keys(answers).filter((name) => !(answers[name].getBoundingClientRect().bottom <= window.innerHeight));
    })()""")


def check_first_screen(browser, page):
    for size in (DESKTOP, PHONE):
        browser.resize(size)
        browser.open(page)
        check(not (left := unanswered(browser)), f"{page.name}, {size[0]} pixels: the first screen does not answer {left}")


def check_marks(browser):
    """A mark is named below the pointer."""
    browser.value("document.querySelector('.chart').scrollIntoView({ block: 'center' })")
    at = browser.value("""(() => { const box = document.querySelector('.chart canvas').getBoundingClientRect();
        return { left: box.x, width: box.width, y: box.y + box.height / 2 }; })()""")
    readings = []
    for part in range(560, 660, 2):
        browser.mouse("Moved", at["left"] + at["width"] * part / 1000, at["y"])
        readings.append(browser.value("[...document.querySelectorAll('.reading')].map((one) => one.textContent).join()"))
    check(any("gpu0 NVIDIA driver error 79" in text for text in readings), f"no mark at 71 s: {readings[::10]}")


def print_costs(browser, pages):
    """Bytes and milliseconds until the page is loaded and its charts are drawn."""
    browser.resize(DESKTOP)
    for page in pages:
        browser.open(page)
        took = browser.value("Math.round(performance.getEntriesByType('navigation')[0].loadEventStart)")
        size = page.stat().st_size
        print(f"{page.name:22} {size:9,} bytes, loaded after {took} ms")
        check(size < 2_000_000, f"{page.name} has {size} bytes")


def main():
    need_chromium()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        pages = [page for page in sample_pages(folder) if not page.name.startswith("mail_")]
        check(len(pages) >= 10, f"pages: {pages}")
        browser = Browser(folder + "/profile")
        try:
            for page in pages:
                check_every_page(browser, page)
            for name in ("outsider", "many_nodes", "nodes_64"):
                check_first_screen(browser, pathlib.Path(folder, name + ".html"))
            page = pathlib.Path(folder, "many_nodes.html")
            browser.resize(DESKTOP)
            browser.open(page)
            for one in (check_copy, check_filter, check_choices, check_without_eyes, check_zoom, check_marks, check_node,
                        check_strips, check_links, check_print):
                one(browser)
            check_quiet(browser, page)
            check_scales(browser, page)
            browser.resize(PHONE)
            browser.open(page)
            check_filter(browser)
            print_costs(browser, pages)
        finally:
            browser.end()
    end()


main()
