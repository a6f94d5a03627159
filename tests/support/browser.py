"""A real Chromium, driven as WebDriver says (https://www.w3.org/TR/webdriver2/): JSON over HTTP to chromedriver."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

SECONDS = 60  # for one command: a busy machine takes long to start a browser
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "Enter": "\ue007",
    "Tab": "\ue004",
    "Escape": "\ue00c",
    "Backspace": "\ue003",
    "Space": " ",
    "Left": "\ue012",
    "Right": "\ue014",
    "Up": "\ue013",
    "Down": "\ue015",
    "Shift": "\ue008",
}


def missing() -> str:
    """Why there is no browser here, or nothing."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not installed (make browser)" if absent else ""


def start_driver() -> tuple[subprocess.Popen[str], int]:
    """chromedriver and its port. It ends if the free port of IPv6 it took is in use in IPv4: again then."""
    for _ in range(20):
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert driver.stdout is not None
        said = []
        for line in driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return driver, int(found[1])
            said.append(line)
        driver.stdout.close()
        driver.wait()
    raise RuntimeError(f"chromedriver does not start: {''.join(said)}")


class Browser:
    """One window. Use it as a context, or close it."""

    def __init__(self) -> None:
        self.driver, self.port = start_driver()
        self.session = ""
        options = {"binary": shutil.which("chromium"), "args": FLAGS.split()}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            started = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self.close()
            raise
        self.session = f"/session/{started['sessionId']}"

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None)
            value = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(value, dict) and "error" in value:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message']}")
        return value

    def open(
        self, url: str, width: int = 1200, height: int = 900, *, dark: bool = False, touch: bool = False
    ) -> None:
        """Load a page in a window of that size; what the console said before is forgotten."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.chromium("Emulation.setDeviceMetricsOverride", size)
        self.chromium("Emulation.setTouchEmulationEnabled", {"enabled": touch})
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.chromium("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.console()
        self.go(url)

    def go(self, url: str) -> None:
        self.call("POST", f"{self.session}/url", {"url": url})
        self.wait_for_paint()

    def wait_for_paint(self) -> None:
        """Until the page has been drawn: before that Chromium ignores keys."""
        script = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        self.call("POST", f"{self.session}/execute/async", {"script": script, "args": []})

    def chromium(self, command: str, parameters: dict[str, Any]) -> Any:
        """A command of Chromium's own protocol, for what WebDriver does not know."""
        path = f"{self.session}/goog/cdp/execute"
        return self.call("POST", path, {"cmd": command, "params": parameters})

    def reload(self) -> None:
        self.call("POST", f"{self.session}/refresh", {})
        self.wait_for_paint()

    def run(self, script: str, *values: Any) -> Any:
        """What a script returns; `return` it."""
        return self.call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(values)})

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

    def click(self, selector: str) -> None:
        self.call("POST", f"{self.element(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        self.call("POST", f"{self.element(selector)}/value", {"text": text})

    def element(self, selector: str) -> str:
        wanted = {"using": "css selector", "value": selector}
        return f"{self.session}/element/{self.call('POST', f'{self.session}/element', wanted)[ELEMENT]}"

    def press(self, *keys: str) -> None:
        """Press keys, as a person does: when the picture is there. Names are in KEYS, Shift+F is one key."""
        for key in keys:
            self.wait("!document.querySelector('#stage[aria-busy]')")
            self.press_at_once(key)

    def press_at_once(self, *keys: str) -> None:
        """Press keys wherever the focus is and whatever is on the screen."""
        for key in keys:
            *held, last = key.split("+") if len(key) > 1 else [key]
            values = [*(KEYS[one] for one in held), KEYS.get(last, last)]
            strokes = [{"type": "keyDown", "value": value} for value in values]
            strokes += [{"type": "keyUp", "value": value} for value in reversed(values)]
            keyboard = {"type": "key", "id": "keyboard", "actions": strokes}
            self.call("POST", f"{self.session}/actions", {"actions": [keyboard]})

    def act(self, *pointer: dict[str, Any], kind: str = "mouse") -> None:
        """Move a pointer, press and release its buttons."""
        steps = [{"button": 0} | step if step["type"] != "pointerMove" else step for step in pointer]
        mouse = {"type": "pointer", "id": kind, "parameters": {"pointerType": kind}, "actions": steps}
        self.call("POST", f"{self.session}/actions", {"actions": [mouse]})

    def console(self) -> list[str]:
        """What the console said since this was last asked, and what went wrong in scripts."""
        entries = self.call("POST", f"{self.session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", f"{self.session}/screenshot")))

    def forget(self) -> None:
        """Leave the page, and lose whoever was signed in."""
        self.go("about:blank")
        self.chromium("Network.clearBrowserCookies", {})

    def close(self) -> None:
        try:
            if self.session:
                self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            assert self.driver.stdout is not None
            self.driver.stdout.close()

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
