"""Chromium without a window, and pages to look at with it: for tests and measurements."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import subprocess

from harness import program, skip

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DESKTOP, PHONE = (1280, 900), (390, 844)


def need_chromium():
    if CHROMIUM is None:
        skip("no chromium: apt-get install chromium")


def sample_pages(folder):
    """The pages of the sample reports, and the HTML of their mails (mail_*), in this folder."""
    subprocess.run([program("test_postproc"),
                    "--gtest_filter=Report.LooksAsAccepted:Report.StaysSmall*:MailMessage.NeedsNothingFromElsewhere"],
                   check=False, stdout=subprocess.DEVNULL, env=os.environ | {"REVEAL_PAGES": str(folder)})
    return sorted(pathlib.Path(folder).glob("*.html"))


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

    def picture(self, size):
        """A PNG of the first so many pixels of the page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                           clip={"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1})
        return base64.b64decode(answer["data"])

    def print_to_pdf(self):
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def end(self):
        with contextlib.suppress(EOFError):
            self.call("Browser.close")
        self.process.wait()
