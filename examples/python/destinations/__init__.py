"""Loopback stand-ins for the services that the examples talk to.

They are honest: they take what is sent, apply it as the real service would, write down what arrived
and what was applied, and fail as they are told (`faults`). Only the standard library is used.
"""

from __future__ import annotations

from destinations.agent import Agent
from destinations.cms import Cms
from destinations.crm import Crm
from destinations.faults import Fault, FaultPlan
from destinations.hubspot import HubSpot
from destinations.message_queue import MessageQueue
from destinations.model import Model
from destinations.records import Records
from destinations.shop import Shop
from destinations.slack import Slack
from destinations.smtp import Smtp
from destinations.stripe_api import StripeApi
from destinations.vendors import Vendors

ALL = (
    Agent,
    Cms,
    Crm,
    HubSpot,
    MessageQueue,
    Model,
    Records,
    Shop,
    Slack,
    Smtp,
    StripeApi,
    Vendors,
)

__all__ = [
    "ALL",
    "Agent",
    "Cms",
    "Crm",
    "Fault",
    "FaultPlan",
    "HubSpot",
    "MessageQueue",
    "Model",
    "Records",
    "Shop",
    "Slack",
    "Smtp",
    "StripeApi",
    "Vendors",
]
