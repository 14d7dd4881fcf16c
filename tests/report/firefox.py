"""A headless Firefox, told what to do over Marionette (its own protocol), by the standard library."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

from page import Page

# Any port that is free, which it writes into its profile; an empty page first; a pixel is a pixel.
PREFERENCES = {"marionette.port": 0, "browser.startup.page": 0, "layout.css.devPixelsPerPx": "1.0"}
THEME = "layout.css.prefers-color-scheme.content-override"
SCREEN = {"MOZ_HEADLESS_WIDTH": "4000", "MOZ_HEADLESS_HEIGHT": "3000"}  # no window is larger
KEYS = {"ArrowRight": "\ue014", "ArrowUp": "\ue013", "End": "\ue010", "Escape": "\ue00c", "Tab": "\ue004"}

RESIZE = """const { clientWidth, clientHeight } = gBrowser.selectedBrowser;
window.resizeTo(arguments[0] + window.outerWidth - clientWidth, arguments[1] + window.outerHeight - clientHeight);"""

# The page's process, and what its main thread has taken.
BUSY = """const { osPid } = gBrowser.selectedBrowser.browsingContext.currentWindowGlobal;
return ChromeUtils.requestProcInfo().then(({ children }) => {
  const { threads } = children.find(({ pid }) => pid === osPid);
  return [osPid, threads.find(({ tid }) => tid === osPid).cpuTime / 1e9];
});"""

# What was thrown or refused, what the page said, and what it asked for, as no console tells that that is not there.
ERRORS = """const id = window.windowGlobalChild.innerWindowId;
const storage = Cc["@mozilla.org/consoleAPI-storage;1"].getService(Ci.nsIConsoleAPIStorage);
const thrown = Services.console.getMessageArray().filter((m) => m instanceof Ci.nsIScriptError
  && m.innerWindowID === id && !(m.flags & Ci.nsIScriptError.infoFlag));
const said = storage.getEvents(id).filter(({ level }) => ["error", "warn", "assert"].includes(level));
const asked = window.performance.getEntriesByType("resource");
return [...thrown.map((m) => m.errorMessage), ...said.map((m) => Array.from(m.arguments, String).join(" ")),
  ...asked.map(({ name }) => `asked for ${name}`)];"""

CAPTURE = """const { x, y, width, height } = arguments[0];
const { currentWindowGlobal } = gBrowser.selectedBrowser.browsingContext;
return currentWindowGlobal.drawSnapshot(new DOMRect(x, y, width, height), 1, "white").then((picture) => {
  const canvas = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas");
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL().split(",")[1];
});"""


class Firefox(Page):
    programs = ("firefox-esr", "firefox")

    def __init__(self, program, width=1280, height=900):
        self.noted, self.number, self.socket = [], 0, None
        self.folder = tempfile.TemporaryDirectory(prefix="bytetape-browser-")
        self.start(program, pathlib.Path(self.folder.name))
        try:
            self.connect(pathlib.Path(self.folder.name, "MarionetteActivePort"))
            self.size(width, height)
        except BaseException:
            self.close()
            raise

    def start(self, program, profile):
        """It ends with this process, however that does; its home is its profile."""
        lines = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items())
        (profile / "user.js").write_text("".join(lines))
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", program, "--headless", "--marionette", "--remote-allow-system-access",
             "--no-remote", "--profile", profile],
            env={**os.environ, **SCREEN, "HOME": str(profile)}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def connect(self, place, timeout=60):
        end = time.monotonic() + timeout
        while not (place.exists() and place.read_text()):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the browser cannot be told anything")
            time.sleep(0.05)
        self.socket = socket.create_connection(("127.0.0.1", int(place.read_text())), timeout=60)
        self.answers = self.socket.makefile("rb")
        self.read()  # its version
        self.call("WebDriver:NewSession", pageLoadStrategy="eager")

    def close(self):
        if self.socket:
            with contextlib.suppress(OSError, RuntimeError):
                self.call("Marionette:Quit", flags=["eForceQuit"])
            self.answers.close()
            self.socket.close()
        try:
            self.process.wait(20 if self.socket else 0)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.folder.cleanup()

    def call(self, method, **params):
        self.number += 1
        message = json.dumps([0, self.number, method, params]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self.read()
        if error:
            raise RuntimeError(f"{method}: {error['message']}")
        return result

    def read(self):
        """A message: its length, a colon, and so much JSON."""
        length = b""
        while not length.endswith(b":"):
            digit = self.answers.read(1)
            if not digit:
                raise RuntimeError("the browser ended")
            length += digit
        return json.loads(self.answers.read(int(length[:-1])))

    def script(self, script, *arguments, sandbox=None):
        return self.call("WebDriver:ExecuteScript", script=script, args=arguments, sandbox=sandbox)["value"]

    def chrome(self, script, *arguments):
        """Runs in the browser itself, around the page."""
        self.call("Marionette:SetContext", value="chrome")
        try:
            return self.script(script, *arguments)
        finally:
            self.call("Marionette:SetContext", value="content")

    def evaluate(self, expression):
        return self.script("return window.eval(arguments[0])", expression)

    @property
    def errors(self):
        return self.noted + self.script(ERRORS, sandbox="system")

    def navigate(self, url):
        self.noted = self.errors
        self.before = self.chrome(BUSY)
        self.call("WebDriver:Navigate", url=url)

    def busy_seconds(self):
        """Pages from files share a process."""
        (earlier, before), (process, seconds) = self.before, self.chrome(BUSY)
        return seconds - before if process == earlier else seconds

    def size(self, width, height):
        self.chrome(RESIZE, width, height)
        self.wait(f"innerWidth === {width} && innerHeight === {height}")

    def theme(self, name):
        self.chrome("Services.prefs.setIntPref(arguments[0], arguments[1])", THEME, ("dark", "light").index(name))
        self.wait(f"matchMedia('(prefers-color-scheme: {name})').matches")

    def act(self, kind, *actions):
        self.call("WebDriver:PerformActions", actions=[{"type": kind, "id": kind, "actions": actions}])
        self.settle()

    def key(self, key):
        value = KEYS.get(key, key)
        self.act("key", {"type": "keyDown", "value": value}, {"type": "keyUp", "value": value})

    def move(self, x, y):
        self.act("pointer", {"type": "pointerMove", "x": x, "y": y})

    def drag(self, *places):
        first, *moves = ({"type": "pointerMove", "x": x, "y": y} for x, y in places)
        down, up = ({"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp"))
        self.act("pointer", first, down, *moves, up)

    def wheel(self, x, y, down):
        self.act("wheel", {"type": "scroll", "x": round(x), "y": round(y), "deltaX": 0, "deltaY": down})

    def capture(self, area, beyond):
        return self.chrome(CAPTURE, area)
