"""What a test asks of a page in a headless browser, whichever browser it is."""

import base64
import json
import pathlib
import time

AREA = """(whole, selector) => {
  const { scrollWidth, scrollHeight } = document.documentElement;
  if (whole) return { x: 0, y: 0, width: scrollWidth, height: scrollHeight };
  if (!selector) return { x: scrollX, y: scrollY, width: innerWidth, height: innerHeight };
  const { x, y, width, height } = document.querySelector(selector).getBoundingClientRect();
  return { x: x - 16 + scrollX, y: y - 8 + scrollY, width: width + 32, height: height + 16 };
}"""


class Page:
    """One page, in a browser of its own. What it writes to its console as an error, and what it throws, is in `errors`.

    A browser's class adds what it is told in its own way: close, navigate(url), evaluate(expression), whose value may
    be a promise, busy_seconds, size(width, height), theme(name), key(name), move(x, y), drag(from, ..., to),
    wheel(x, y, down) and capture(area, whether it goes beyond the window)."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def open(self, path, place="", timeout=60):
        """Opens a file, at the hash `place`, and waits until it has drawn; how long that took, in seconds."""
        if place:
            self.navigate("about:blank")  # or a new hash alone would not load it again
        began = time.monotonic()
        self.navigate(pathlib.Path(path).resolve().as_uri() + place)
        self.wait("document.documentElement?.dataset.drawn === 'true'", timeout)
        return time.monotonic() - began

    def wait(self, condition, timeout=60):
        end = time.monotonic() + timeout
        while not self.evaluate(condition):
            if time.monotonic() > end:
                where = self.evaluate("location.href")
                raise RuntimeError(f"{where}: not within {timeout} s: {condition}; errors: {self.errors}")
            time.sleep(0.02)

    def settle(self):
        """Waits for what is still to be drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def click(self, x, y):
        self.drag((x, y))

    def screenshot(self, path, whole=False, of=None):
        """Of the window, of the whole page, or of what a selector finds."""
        area = self.evaluate(f"({AREA})({json.dumps(whole)}, {json.dumps(of)})")
        pathlib.Path(path).write_bytes(base64.b64decode(self.capture(area, beyond=whole or of is not None)))
