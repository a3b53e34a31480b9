# SPDX-License-Identifier: BSD-2-Clause
"""browser - a headless Chromium, driven over WebDriver with only the standard library."""

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Home": "\ue011", "Enter": "\ue007"}
READY_SECONDS = 30


class Browser:
    def __init__(self, width=1400, height=1000, dark=False):
        self.profile = tempfile.mkdtemp(prefix="fathom-browser-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.session = None
        try:
            self.wait_driver()
            args = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", f"--window-size={width},{height}",
                    f"--user-data-dir={self.profile}"]
            self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
            self.set_dark(dark)
        except BaseException:
            self.close()
            raise

    def wait_driver(self):
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                if self.call("GET", "/status")["ready"]:
                    return
            except OSError:
                pass
            if time.monotonic() > deadline or self.driver.poll() is not None:
                raise AssertionError("chromedriver did not become ready")
            time.sleep(0.05)

    def call(self, method, path, body=None):
        if self.session and not path.startswith("/session/") and path not in ("/status", "/session"):
            path = f"/session/{self.session}{path}"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if method in ("GET", "DELETE") else json.dumps(body or {}).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {json.load(error)['value']['message']}") from None

    def set_dark(self, dark):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}})

    def open(self, path):
        self.call("POST", "/url", {"url": "file://" + path})

    def visit(self, url):
        self.call("POST", "/url", {"url": url})

    def set_size(self, width, height, mobile=False):
        self.call("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}})

    def script(self, text, *args):
        return self.call("POST", "/execute/sync", {"script": text, "args": list(args)})

    def find(self, selector):
        return {ELEMENT: self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]}

    def text(self, selector):
        return self.script("return document.querySelector(arguments[0]).innerText", selector)

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)[ELEMENT]}/click")

    def pointer(self, selector, *steps):
        """Do the steps (kind, x, y) relative to the middle of the element: move, down, up."""
        origin = self.find(selector)
        actions = []
        for kind, x, y in steps:
            if kind == "move":
                actions.append({"type": "pointerMove", "duration": 0, "origin": origin, "x": x, "y": y})
            else:
                actions.append({"type": "pointer" + kind.capitalize(), "button": 0})
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def wheel(self, selector, delta, x=0):
        self.call("POST", "/actions", {"actions": [{"type": "wheel", "id": "wheel", "actions": [
            {"type": "scroll", "duration": 0, "origin": self.find(selector), "x": x, "y": 0, "deltaX": 0, "deltaY": delta}]}]})

    def keys(self, *names):
        actions = []
        for name in names:
            key = KEYS.get(name, name)
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def complaints(self):
        """The errors and refused loads on the page's console."""
        return [row["message"] for row in self.call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self):
        if self.session:
            try:
                self.call("DELETE", f"/session/{self.session}")
            except (OSError, AssertionError):
                pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)
