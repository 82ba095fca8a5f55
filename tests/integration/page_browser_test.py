#!/usr/bin/python3
"""The pages of the sample reports in Chromium: nothing fails, nothing is fetched, nothing is wider than the window, texts
have contrast; copying, filtering, zooming and showing one node do what they say. Prints the size and the load time of each
page, those of jobs of 4, 64 and 1,024 nodes among them."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import check, end, fail, program, skip  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP, PHONE = (1280, 900), (390, 844)
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


class Browser:
    """Speaks the DevTools protocol over a pair of pipes: JSON texts, each followed by a zero byte."""

    def __init__(self, folder):
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        # It expects them as descriptors 3 and 4.
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh", CHROMIUM, "--headless", "--no-sandbox",
             "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", f"--user-data-dir={folder}",
             "--remote-debugging-pipe"],
            pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.pending, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.pending:
            more = os.read(self.back, 1 << 16)
            if not more:
                raise EOFError("Chromium ended")
            self.pending += more
        text, self.pending = self.pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message())

    def resize(self, size, scheme="light"):
        self.call("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1,
                  mobile=size == PHONE)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True,
                           userGesture=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def mouse(self, kind, x, y, clicks=1):
        self.call("Input.dispatchMouseEvent", type="mouse" + kind, x=x, y=y, clickCount=clicks,
                  button="none" if kind == "Moved" else "left", buttons=0 if kind == "Released" else 1)

    def enter(self):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", windowsVirtualKeyCode=13, text="\r")

    def end(self):
        with contextlib.suppress(EOFError):
            self.call("Browser.close")
        self.process.wait()


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
    if CHROMIUM is None:
        skip("no chromium: apt-get install chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        subprocess.run([program("test_postproc"), "--gtest_filter=Report.LooksAsAccepted:Report.StaysSmall*"], check=False,
                       stdout=subprocess.DEVNULL, env=os.environ | {"REVEAL_PAGES": folder})
        pages = sorted(pathlib.Path(folder).glob("*.html"))
        check(len(pages) >= 10, f"pages: {pages}")
        browser = Browser(folder + "/profile")
        try:
            for page in pages:
                check_every_page(browser, page)
            page = pathlib.Path(folder, "many_nodes.html")
            browser.resize(DESKTOP)
            browser.open(page)
            for one in (check_copy, check_filter, check_choices, check_without_eyes, check_zoom, check_marks, check_node):
                one(browser)
            check_quiet(browser, page)
            browser.resize(PHONE)
            browser.open(page)
            check_filter(browser)
            print_costs(browser, pages)
        finally:
            browser.end()
    end()


main()
