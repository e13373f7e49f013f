"""Publish a page to a CMS that creates under an id of ours, only if there is nothing yet."""

from __future__ import annotations

import json
import os
import sys

import semel.httpx
from pydantic import BaseModel
from semel import Refused, Semel, conditional, effect, keys

CMS = os.environ["CMS_URL"]
EXISTS = 412


class Page(BaseModel):
    """What is to be published. A new revision is a new intent."""

    id: str
    revision: str
    title: str


class Published(BaseModel):
    """The page, as it stands in the CMS."""

    url: str
    title: str
    published_by: str


def page_key(page: Page) -> list[str]:
    """One publication for each page, place and revision."""
    return keys.publish(page.id, "blog", page.revision)


@effect("cms-page", key=page_key, contract=conditional, lease=os.environ.get("LEASE"))
def publish(page: Page) -> Published:
    """Creates the page, or finds that an earlier send of this intent has."""
    path = f"/pages/{page.id}/{page.revision}"
    ours = semel.intent().downstream_key
    content = {"title": page.title, "published_by": ours}
    with semel.httpx.Client(base_url=CMS, timeout=20) as cms:
        answer = cms.put(path, json=content, headers={"If-None-Match": "*"})
        if answer.status_code == EXISTS:
            answer = cms.get(path)
    published = Published.model_validate(answer.raise_for_status().json())
    if published.published_by != ours:
        raise Refused("somebody else has published under this id")
    return published


def main() -> None:
    """Each page is published twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"))
    names = sys.argv[1:] or ["hello-world"]
    pages = [Page(id=name, revision="r1", title=f"About {name}") for name in names]
    print(json.dumps({page.id: [publish(page).model_dump() for _ in "12"] for page in pages}))
    app.close()


if __name__ == "__main__":
    main()
