"""The browsers that pages are tried in, and where they are on this machine."""

import shutil

from chromium import Chromium
from firefox import Firefox

BROWSERS = {"chromium": Chromium, "firefox": Firefox}
Browser = Chromium  # where any will do


def find(name="chromium"):
    """The browser's program, or None."""
    return next(filter(None, map(shutil.which, BROWSERS[name].programs)), None)
