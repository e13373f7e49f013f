"""Runs one destination: `python -m destinations crm --port 8002` (in the folder `examples/python`).

Prints its address, and that of its control: `POST` a JSON list of faults there, `GET` its book.
"""

from __future__ import annotations

import argparse
import json
import signal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from destinations import ALL
from destinations.faults import FaultPlan, read_faults
from destinations.http import HttpDestination
from destinations.smtp import Smtp


def control(destination: HttpDestination | Smtp) -> HTTPServer:
    """A server of its own, so that control is the same whatever a destination speaks."""

    class Control(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(destination.book.path.read_bytes())

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            for fault in read_faults(text):
                destination.faults.add(fault)
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """The book is the log."""

    return HTTPServer(("127.0.0.1", 0), Control)


def main() -> None:
    """Serves until it is interrupted or terminated."""
    kinds = {kind.name: kind for kind in ALL}
    parser = argparse.ArgumentParser(prog="python -m destinations")
    parser.add_argument("name", choices=sorted(kinds))
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    kind = kinds[options.name]
    destination = kind(options.folder, FaultPlan.from_environment(), options.port)
    server = control(destination)
    lines = {
        "address": destination.start(),
        "control": f"http://127.0.0.1:{server.server_port}",
        "book": str(destination.book.path),
    }
    print(json.dumps(lines), flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        destination.stop()


main()
