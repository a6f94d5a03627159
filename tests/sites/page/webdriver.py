"""A real browser, by the WebDriver protocol that chromedriver speaks: just what the tests need."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM, CHROMEDRIVER = shutil.which("chromium"), shutil.which("chromedriver")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Backspace": "\ue003", "Left": "\ue012", "Right": "\ue014", "Escape": "\ue00c", "Tab": "\ue004"}


class Browser:
    def __init__(self, folder: Path, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        self.driver = subprocess.Popen(
            [CHROMEDRIVER or "", "--port=0"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": str(folder)},
        )
        assert self.driver.stdout is not None
        line = next(line for line in self.driver.stdout if "successfully on port" in line)
        port = line.split("on port")[1].strip(" .\n")
        self.base = f"http://127.0.0.1:{port}/session"
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}"]
        flags += ["--disable-background-networking", "--no-first-run", "--disable-component-update"]
        flags += ["--disable-search-engine-choice-screen", "--hide-scrollbars"]
        options = {"binary": CHROMIUM, "args": flags}
        if dark:
            options["args"] += ["--blink-settings=preferredColorScheme=0"]
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self.call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self.base += "/" + answer["sessionId"]
        device = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.devtools("Emulation.setDeviceMetricsOverride", device)
        self.devtools("Emulation.setTouchEmulationEnabled", {"enabled": width < 500})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def devtools(self, command: str, parameters: Any) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def go(self, address: str) -> None:
        self.call("POST", "/url", {"url": address})

    def reload(self) -> None:
        self.call("POST", "/refresh")

    def run(self, script: str, *values: Any) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": list(values)})

    def press(self, *keys: str) -> None:
        """Real key presses, as from a keyboard."""
        actions = [
            {"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")
        ]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def click(self, selector: str) -> None:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{found[ELEMENT]}/click")

    def type(self, selector: str, text: str) -> None:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        self.call("POST", f"/element/{found[ELEMENT]}/value", {"text": text})

    def wait(self, script: str, *values: Any, seconds: float = 15) -> Any:
        """Until the expression is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(f"return {script}", *values):
                return found
            time.sleep(0.02)
        raise AssertionError(f"never came true: {script}\n{self.text()}")

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def messages(self) -> list[str]:
        """What the console says, policy violations included."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self) -> None:
        self.call("DELETE", "")
        self.driver.terminate()
        self.driver.wait(20)
        assert self.driver.stdout is not None
        self.driver.stdout.close()
