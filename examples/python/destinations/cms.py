"""A CMS whose pages are put under ids of the writer, only where there is none yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from destinations.faults import FaultPlan
from destinations.http import Answer, HttpDestination, Request


class Cms(HttpDestination):
    """`PUT` with `If-None-Match: *` creates or answers 412; without it, it overwrites."""

    name = "cms"

    def __init__(self, folder: Path, faults: FaultPlan | None = None, port: int = 0) -> None:
        super().__init__(folder, faults, port)
        self._pages: dict[str, dict[str, Any]] = {}

    def apply(self, request: Request) -> Answer:
        if not request.path.startswith("/pages/"):
            return Answer(404, {"error": "not_found"})
        page = self._pages.get(request.path)
        if request.method == "GET":
            return Answer(200, page) if page else Answer(404, {"error": "not_found"})
        if request.method != "PUT":
            return Answer(405, {"error": "method_not_allowed"})
        if page and request.headers.get("if-none-match") == "*":
            return Answer(412, {"error": "exists"})
        return self._put(request)

    def _put(self, request: Request) -> Answer:
        page = {"url": f"https://blog.example{request.path}", **request.json()}
        self._pages[request.path] = page
        self.book.applied("page", path=request.path, published_by=page.get("published_by"))
        return Answer(201, page)
