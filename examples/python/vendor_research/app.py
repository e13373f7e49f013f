"""Ask several vendors for offers, wait for days, and publish one comparison."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import httpx
import semel
import semel.httpx
from pydantic import BaseModel
from semel import (
    Refused,
    Semel,
    WorkflowContext,
    conditional,
    effect,
    function,
    native_key,
    workflow,
)

VENDORS_URL = os.environ["VENDORS_URL"]
CMS = os.environ["CMS_URL"]
LEASE = os.environ.get("LEASE")
PATIENCE = os.environ.get("VENDOR_PATIENCE", "3d")
SHELF = Path(os.environ.get("ARTEFACTS", "artefacts"))
VENDORS = ("acme", "globex", "initech")
EXISTS = 412


class Artefact(BaseModel):
    """Where a large document lies. The journal keeps this, and not the document."""

    sha256: str
    size: int


class Offer(BaseModel):
    """One vendor's offer."""

    vendor: str
    summary: str
    document: Artefact


class Asked(BaseModel):
    """What a vendor answers when it has taken the request."""

    reference: str
    vendor: str


class Page(BaseModel):
    """The comparison, as it stands in the CMS."""

    url: str
    published_by: str


@effect("ask-vendor", key=["{reference}", "{vendor}"], contract=native_key("24h"), lease=LEASE)
async def ask_vendor(reference: str, vendor: str) -> Asked:
    """Asks for an offer."""
    async with semel.httpx.AsyncClient(base_url=VENDORS_URL, timeout=20) as vendors:
        answer = await vendors.post("/requests", json={"reference": reference, "vendor": vendor})
    return Asked.model_validate(answer.raise_for_status().json())


def shelve(content: bytes) -> Artefact:
    """Keeps a document under its digest. Done twice, it is the same file with the same bytes."""
    found = Artefact(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    SHELF.mkdir(parents=True, exist_ok=True)
    half = SHELF / f"{found.sha256}.{os.getpid()}"
    half.write_bytes(content)
    half.rename(SHELF / found.sha256)  # whole, or not there
    return found


@function(retries=5)
async def fetch_offer(reference: str, vendor: str) -> Offer:
    """Downloads an offer, which is large, and returns what is worth remembering."""
    async with httpx.AsyncClient(base_url=VENDORS_URL, timeout=20) as vendors:
        answer = await vendors.get(f"/offers/{vendor}/{reference}")
    text: str = answer.raise_for_status().json()["document"]
    summary = text.splitlines()[0]
    return Offer(vendor=vendor, summary=summary, document=shelve(text.encode()))


@effect("publish", key="{reference}", contract=conditional, lease=LEASE)
async def publish(reference: str, offers: list[Offer]) -> Page:
    """Creates the page, or finds that an earlier send of this intent has."""
    path, ours = f"/pages/{reference}/offers", semel.intent().downstream_key
    content = {"lines": [offer.summary for offer in offers], "published_by": ours}
    async with semel.httpx.AsyncClient(base_url=CMS, timeout=20) as cms:
        answer = await cms.put(path, json=content, headers={"If-None-Match": "*"})
        if answer.status_code == EXISTS:
            answer = await cms.get(path)
    page = Page.model_validate(answer.raise_for_status().json())
    if page.published_by != ours:
        raise Refused("somebody else has published under this name")
    return page


@workflow
async def one_vendor(ctx: WorkflowContext, reference: str, vendor: str) -> Offer:
    """A child: asks, sleeps for days without keeping any process busy, and fetches."""
    await ctx.step(ask_vendor, reference, vendor)
    await ctx.sleep(PATIENCE)
    return await ctx.step(fetch_offer, reference, vendor)


@workflow
async def compare(ctx: WorkflowContext, reference: str) -> Page:
    """Fans out over the vendors, and publishes when all have answered."""
    asked = (ctx.child(one_vendor, reference, vendor) for vendor in VENDORS)
    offers = await ctx.gather(*asked)
    return await ctx.step(publish, reference, list(offers))


def main() -> None:
    """Each comparison is asked for twice."""
    app = Semel(os.environ.get("SEMEL_STORE", "sqlite:semel.db"), lease=LEASE)
    names = sys.argv[1:] or ["pumps"]
    runs = {name: [app.start(compare, name, key=name) for _ in "12"] for name in names}
    print(
        json.dumps({name: [run.result().model_dump() for run in two] for name, two in runs.items()})
    )
    app.close()


if __name__ == "__main__":
    main()
