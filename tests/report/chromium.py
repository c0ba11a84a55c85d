"""A real browser for tests: chromium, headless, driven over its own debugging pipe; standard library only."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions", "--disable-dev-shm-usage",
    "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_OWN = ("file:", "data:", "blob:", "http://127.0.0.1:")  # what a page may ask for
_KEYS = {"Escape": 27, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9}
_TYPED = {"Enter": "\r"}  # what a key types where it is not its own name


class Browser:
    """One page in one browser. `problems` gathers every console error, uncaught exception and failed request."""

    def __init__(self) -> None:
        assert BINARY is not None
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        down, self._write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in os.pipe())
        self._read, up = (fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in os.pipe())

        def wire() -> None:  # the browser reads commands from descriptor 3 and answers on 4
            os.dup2(down, 3)
            os.dup2(up, 4)

        command = [BINARY, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            command, preexec_fn=wire, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(down)
        os.close(up)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(10)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(120)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _receive(self, seconds: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], seconds)[0]:
                raise TimeoutError("chromium does not answer")
            chunk = os.read(self._read, 1 << 16)
            if not chunk:
                raise RuntimeError("chromium has gone")
            self._rest += chunk
        raw, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(raw)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.problems.append(str(details.get("exception", {}).get("description") or details["text"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(f"console: {[a.get('value', a.get('description')) for a in params['args']]}")
            case "Log.entryAdded" if params["entry"]["level"] == "error":
                self.problems.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")
            case "Network.requestWillBeSent" if not params["request"]["url"].startswith(_OWN):
                self.problems.append(f"left the page for {params['request']['url']}")

    def open(self, page: Path | str, fragment: str = "", wait: str = "true", seconds: float = 15) -> None:
        address = page.resolve().as_uri() if isinstance(page, Path) else page
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address + (f"#{fragment}" if fragment else ""))
        self.until("location.protocol !== 'about:' && document.readyState === 'complete'", seconds)
        self.until(wait, seconds)

    def run(self, code: str) -> Any:
        """Value of a JavaScript expression; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(
                answer["exceptionDetails"].get("exception", {}).get("description", answer["exceptionDetails"]["text"])
            )
        return answer["result"].get("value")

    def until(self, condition: str, seconds: float = 15) -> None:
        end = time.monotonic() + seconds
        while not self._holds(condition):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {condition}; problems: {self.problems}")
            time.sleep(0.02)

    def _holds(self, condition: str) -> bool:
        try:
            return bool(self.run(f"Boolean({condition})"))
        except RuntimeError as error:
            if "navigated or closed" in str(error):  # the page reloaded between the question and its answer
                return False
            raise

    def press(self, key: str) -> None:
        text = {"text": _TYPED.get(key, key)} if len(key) == 1 or key in _TYPED else {}
        code = {"windowsVirtualKeyCode": _KEYS[key]} if key in _KEYS else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def size(self, width: int, height: int, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path: Path, whole: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
