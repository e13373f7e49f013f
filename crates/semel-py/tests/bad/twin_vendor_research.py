"""Vendors that plain steps ask, in children."""

from __future__ import annotations

import os

import httpx
from semel import WorkflowContext, function, workflow


@function
def ask(reference: str, vendor: str) -> str:
    wish = {"reference": reference, "vendor": vendor}
    httpx.post(f"{os.environ['VENDORS_URL']}/requests", json=wish).raise_for_status()
    return vendor


@workflow
async def one_vendor(ctx: WorkflowContext, reference: str, vendor: str) -> str:
    return await ctx.step(ask, reference, vendor)


@workflow
async def compare(ctx: WorkflowContext, reference: str) -> list[str]:
    asked = (ctx.child(one_vendor, reference, vendor) for vendor in ("acme", "globex"))
    return list(await ctx.gather(*asked))
