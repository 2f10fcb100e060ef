#!/usr/bin/env python3
"""test-pages.py [--made] PROGRAM FOLDER [TASK ...] - looks at the demo's pages as a visitor would.

Makes the demo page of every task with a shipped model (or of those named) below FOLDER, opens each in headless Chromium on
a desk (1280 x 800) and on a phone (390 x 844), light and dark, and checks:

  - the episode is in view without scrolling and moves, and words in it name the goal;
  - no message of an error on the console, no request beyond the page itself;
  - the page does not scroll sideways, and no figure's text leaves the screen;
  - no two labels of a figure overlap, with every part unfolded;
  - nothing says "not run", and no line of a table is without a number.

With --made the pages that are below FOLDER are looked at as they are. Screenshots stay in FOLDER. Exit status 1 if a check fails. Needs chromium and nothing else: the browser is driven through
its debugging pipe (one JSON text after the other, each ended by a NUL).
"""
import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

SIZES = {"1280x800": (1280, 800, False), "390x844": (390, 844, True)}

# What a page says of itself, as JSON.
LOOK = """(() => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const stage = document.querySelector('.stage'), range = document.querySelector('.range');
  return {stage: stage && box(stage), frame: range && +range.value, width: document.documentElement.scrollWidth,
          names: document.querySelectorAll('.names text').length,
          button: document.querySelector('.play') && box(document.querySelector('.play'))};
})()"""

UNFOLDED = """(() => {
  document.querySelectorAll('details').forEach(d => d.open = true);
  const labels = [...document.querySelectorAll('svg.fig, svg.over')].map(svg => ({
    name: svg.getAttribute('aria-label') || 'the episode',
    texts: [...svg.querySelectorAll('text')].filter(t => t.textContent.trim()).map(t => {
      const r = t.getBoundingClientRect(); return [t.textContent, r.left, r.top, r.right, r.bottom]; })}));
  const empty = [...document.querySelectorAll('tbody tr')].map(tr => [...tr.querySelectorAll('td')])
    .filter(cells => cells.length && cells.every(td => td.textContent.trim() === '\\u2013'))
    .map(cells => cells[0].parentElement.textContent);
  return {labels, empty, width: document.documentElement.scrollWidth, text: document.body.innerText,
          tables: document.querySelectorAll('table').length};
})()"""


class Browser:
    def __init__(self, program):
        to_read, to_write = os.pipe(), os.pipe()  # what the browser reads and writes
        self.profile = tempfile.mkdtemp(prefix="firm-pages-")
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
                   "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]
        # the browser's pipe is file descriptors 3 and 4, whatever numbers they have here
        shell = f'exec "$@" 3<&{to_read[0]} 4>&{to_write[1]}'
        self.process = subprocess.Popen(["bash", "-c", shell, "bash", program, *options], stderr=subprocess.DEVNULL,
                                        pass_fds=(to_read[0], to_write[1]))
        os.close(to_read[0])
        os.close(to_write[1])
        self.out, self.inp, self.rest, self.number, self.events = to_read[1], to_write[0], b"", 0, []

    def read(self, seconds):
        """The next message, or None when the time is up."""
        end = time.monotonic() + seconds
        while b"\0" not in self.rest:
            ready = select.select([self.inp], [], [], max(0.0, end - time.monotonic()))[0]
            if not ready:
                return None
            more = os.read(self.inp, 1 << 20)
            if not more:
                raise SystemExit("test-pages: chromium ended early")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + 60
        while time.monotonic() < end:
            answer = self.read(end - time.monotonic())
            if answer is None:
                break
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"test-pages: {method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)
        raise SystemExit(f"test-pages: chromium did not answer {method}")

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            event = self.read(end - time.monotonic())
            if event:
                self.events.append(event)

    def wait_for(self, method, seconds=60):
        end = time.monotonic() + seconds
        while not any(e.get("method") == method for e in self.events):
            if time.monotonic() > end:
                raise SystemExit(f"test-pages: {method} never came")
            event = self.read(end - time.monotonic())
            if event:
                self.events.append(event)

    def close(self):
        self.call("Browser.close")
        self.process.wait(30)
        shutil.rmtree(self.profile, ignore_errors=True)


def overlaps(a, b):
    """How far two boxes (text, left, top, right, bottom) reach into each other: the smaller side, in pixels."""
    wide, high = min(a[3], b[3]) - max(a[1], b[1]), min(a[4], b[4]) - max(a[2], b[2])
    return min(wide, high)


class Visit:
    """One page at one size; complaints collect in `wrong`."""

    def __init__(self, browser, page, size, dark):
        self.browser, self.page, self.size, self.wrong = browser, page, size, []
        self.width, self.height, phone = SIZES[size]
        self.url = "file://" + os.path.abspath(page)
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        browser.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=self.height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=self.url)
        browser.wait_for("Page.loadEventFired")
        self.target = target

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def ask(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"test-pages: {answer['exceptionDetails']['text']}")
        return answer["result"]["value"]

    def complain(self, text):
        self.wrong.append(f"{self.page} at {self.size}: {text}")

    def shoot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def check_episode(self):
        before = self.ask(LOOK)
        self.browser.wait(1.2)
        after = self.ask(LOOK)
        if not before["stage"]:
            self.complain("there is no episode")
            return
        left, top, right, bottom = before["stage"]
        if left < 0 or top < 0 or right > self.width or bottom > self.height or bottom - top < 200:
            self.complain(f"the episode is not in view: it reaches from {left:.0f}, {top:.0f} to {right:.0f}, {bottom:.0f}")
        if not before["names"]:
            self.complain("no word in the picture says where the goal is")
        if before["button"][3] > self.height:
            self.complain("the button to pause is below the fold")
        if before["frame"] == after["frame"]:
            self.complain(f"the episode does not play: frame {before['frame']} for 1.2 s")
        if before["width"] > self.width:
            self.complain(f"the page is {before['width']} pixels wide")

    def check_rest(self):
        page = self.ask(UNFOLDED)
        if page["width"] > self.width:
            self.complain(f"unfolded, the page is {page['width']} pixels wide")
        if "not run" in page["text"]:
            self.complain('it says "not run"')
        if not page["tables"]:
            self.complain("there is no table")
        for line in page["empty"]:
            self.complain(f"a line without numbers: {line}")
        for figure in page["labels"]:
            texts = figure["texts"]
            for i, a in enumerate(texts):
                if a[1] < -1 or a[3] > self.width + 1:
                    self.complain(f"'{a[0]}' of '{figure['name']}' leaves the screen")
                for b in texts[:i]:
                    if overlaps(a, b) > 1.5:
                        self.complain(f"'{a[0]}' and '{b[0]}' of '{figure['name']}' overlap by {overlaps(a, b):.1f} pixels")

    def check_messages(self):
        for e in self.browser.events:
            method, p = e.get("method"), e.get("params", {})
            if method == "Runtime.exceptionThrown":
                self.complain("a script failed: " + p["exceptionDetails"]["text"])
            elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "warning", "assert"):
                self.complain("the console has a message: " + str(p["args"]))
            elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
                self.complain("the browser complains: " + p["entry"]["text"])
            elif method == "Network.requestWillBeSent":
                url = p["request"]["url"]
                if url != self.url and not url.startswith("data:"):
                    self.complain("it asks for " + url)

    def end(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
        return self.wrong


def make_pages(program, folder, tasks):
    for task in tasks:
        print(f"test-pages: the demo of {task}", flush=True)
        command = [program, "demo", task, "-o", os.path.join(folder, task), "--trials", "4", "--quiet"]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            raise SystemExit(f"test-pages: {' '.join(command)} failed")


def main():
    made = sys.argv[1:2] == ["--made"]
    given = sys.argv[2 if made else 1:]
    if len(given) < 2 or given[0].startswith("-"):
        raise SystemExit("usage: scripts/test-pages.py [--made] PROGRAM FOLDER [TASK ...]")
    program, folder, tasks = given[0], given[1], given[2:]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        raise SystemExit("test-pages: chromium was not found; scripts/setup.sh pages installs it")
    if not tasks:
        models = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models")
        tasks = sorted(f[: -len(".safetensors")] for f in os.listdir(models) if f.endswith(".safetensors"))
    if not made:
        make_pages(program, folder, tasks)
    browser, wrong, visits = Browser(chromium), [], 0
    for task in tasks:
        for size in SIZES:
            for dark in (False, True):
                visit = Visit(browser, os.path.join(folder, task, "index.html"), size, dark)
                visit.check_episode()
                visit.shoot(os.path.join(folder, f"{task}-{size}{'-dark' if dark else ''}.png"))
                visit.check_rest()
                visit.check_messages()
                wrong += visit.end()
                visits += 1
    browser.close()
    for line in wrong:
        print(line)
    print(f"test-pages: {visits} visits, {len(wrong)} complaints; screenshots in {folder}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
