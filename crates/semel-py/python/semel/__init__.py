"""Semel: every external effect happens once per business intent, every repeat gets the first
receipt, and the ledger proves it.

    app = Semel("sqlite:semel.db")

    @effect("crm-ticket", key="{request_id}", contract=native_key(retention="24h"))
    def create_ticket(request_id: str, subject: str) -> str:
        return crm.create(subject, idempotency_key=semel.intent().downstream_key)

    create_ticket("42", "printer on fire")
    create_ticket("42", "printer on fire")  # not sent again: the first receipt
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._api import *  # noqa: F403
    from ._native import __version__ as __version__


def __getattr__(name: str) -> Any:
    """Loads the package when the first of its names is used: the command needs none of them."""
    if not name.startswith("_") or name in ("__all__", "__version__"):
        api = import_module("._api", __name__)
        if hasattr(api, name):
            return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(import_module("._api", __name__).__all__)
