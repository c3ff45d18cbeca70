"""Debian's Chromium without a window: what opens pages for figures and tests."""
import os
import shutil
import subprocess


def chromium():
    """Its command, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    return None


def browse(page, profile, *options, size=(1280, 900)):
    """Opens the file `page` and returns what Chromium writes to both of its streams. No name of a host leads anywhere;
    `profile` is a folder that it may fill."""
    command = [chromium(), "--headless", "--disable-gpu", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
               f"--window-size={size[0]},{size[1]}", f"--user-data-dir={profile}", "--enable-logging=stderr", *options]
    if os.geteuid() == 0:
        command.append("--no-sandbox")
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=180, check=False)
    return done.stdout, done.stderr
