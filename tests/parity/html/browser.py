"""A headless Chromium, driven through the DevTools protocol on a pair of pipes: no package is needed for it."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import select
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
COMMAND = next((path for name in NAMES if (path := shutil.which(name))), None)
"""The path of the browser; None if there is none."""

PATIENCE = 120  # seconds; the machine may be busy
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # in a container there are no namespaces to make one of
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


class PageError(AssertionError):
    """A script of the page raised, or the page broke its own policy."""


class Browser:
    """One window, and what its pages said on the console."""

    def __init__(self, read: int, write: int) -> None:
        self._read = read
        self._write = os.fdopen(write, "wb")
        self._received = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        self._write.flush()
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        if "error" in answer:
            raise PageError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(
        self, page: Path | str, width: int = 1400, height: int = 900, dark: bool = False, fragment: str = ""
    ) -> None:
        """Open a file or an address in a window of this size, and wait until it is loaded."""
        address = page if isinstance(page, str) else page.as_uri()
        self.complaints.clear()
        self.requests.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address + fragment)
        self.run("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def run(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, or of its promise."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise PageError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys, such as "ArrowDown", "Enter" or "/"."""
        for key in keys:
            text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            code = {"Enter": 13, "Escape": 27, "Tab": 9}.get(key, 0)
            down: dict[str, Any] = {"type": "keyDown", "key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", **down, **({"text": text} if text else {}))
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        place = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{place}.scrollIntoView({{block: 'nearest'}})")
        x, y = self.run(f"(b => [b.x + b.width / 2, b.y + b.height / 2])({place}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    @contextlib.contextmanager
    def frame(self) -> Iterator[None]:
        """Within this, the only frame of the page answers that has a process of its own."""
        (target,) = (each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "iframe")
        page, self._session = self._session, None
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Runtime", "Log"):
            self.call(f"{domain}.enable")
        yield
        self._session = page

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Write what the window shows, or the whole page, as PNG."""
        response = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(response["data"]))

    def print(self, path: Path) -> None:
        """Write the page as PDF."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            if not select.select([self._read], [], [], PATIENCE)[0]:
                raise PageError(f"the browser has said nothing for {PATIENCE} s")
            if not (some := os.read(self._read, 1 << 20)):
                raise PageError("the browser has ended")
            self._received += some
        message, _, self._received = self._received.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and return its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser, which ends with the context."""
    assert COMMAND is not None
    from_us, to_it = os.pipe()
    from_it, to_us = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        shell = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'  # the protocol is on descriptors 3 and 4
        process = subprocess.Popen(
            ["bash", "-c", shell, COMMAND, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(from_us, to_us),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        try:
            yield Browser(from_it, to_it)
        finally:
            process.terminate()
            process.wait(PATIENCE)
            os.close(from_it)
