"""Which calls change something elsewhere, which only ask, and which ask a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["write", "read", "model"]


@dataclass(frozen=True)
class Outside:
    """A call that leaves the process."""

    kind: Kind
    family: str
    """`http`, `sdk`, `sql` or `mail`."""
    passes_key: bool = False
    """A client of ours, which passes the downstream key on."""


_HTTP = re.compile(
    r"(semel\.)?(httpx|requests|aiohttp|urllib3|http\.client)"
    r"(\.(\w+\(\)|sessions\.Session\(\)))*\.(?P<verb>\w+)\Z"
)
_VERBS = {"post": "write", "put": "write", "patch": "write", "delete": "write"}
_ASKING = {"get": "read", "head": "read", "options": "read"}
_BY_METHOD = frozenset(["request", "stream", "build_request", "send", "urlopen"])
# A POST that only asks, or lets one in. Its address says so.
_QUESTION = re.compile(
    r"[/_-](search|query|lookup|find|filter|count|exists|token|login)(\b|\Z)", re.IGNORECASE
)

_MODEL = re.compile(
    r"(openai|anthropic|litellm|cohere|mistralai|groq|together|ollama|replicate|vertexai"
    r"|google\.generativeai|google\.genai|huggingface_hub|instructor|pydantic_ai|dspy|outlines"
    r"|langchain\w*(\.\w+)*|llama_index(\.\w+)*|transformers|agents)\b"
    r".*\.(create|acreate|parse|stream|complete|acomplete|completion|acompletion|generate"
    r"|agenerate|generate_content|generate_content_async|chat|chat_completion|text_generation"
    r"|invoke|ainvoke|predict|apredict|run|run_sync|arun|respond|batch|abatch|query)\Z"
)
_BEDROCK = re.compile(r"boto3\..*\.(invoke_model|converse)(_with_response_stream|_stream)?\Z")

_CHANGE = (
    r"(create|update|modify|delete|cancel|capture|confirm|refund|pay|send|void|finalize_invoice"
    r"|charge|upsert|insert)"
)
_SDK_WRITES = re.compile(
    "|".join(
        rf"({one})\Z"
        for one in (
            rf"(semel\.)?stripe\..*\.{_CHANGE}(_async)?",
            r"boto3\..*\.(put_|send_|publish|create_|delete_|update_|start_|invoke|copy|upload_"
            r"|transact_write|batch_write|run_task)\w*",
            r"slack_sdk\..*\.(chat_(post|update|delete|schedule|me)\w*|files_upload\w*|api_call)",
            r"slack_sdk\.webhook\..*\.send(_dict)?",
            r"sendgrid\..*\.send",
            rf"(twilio|paypalrestsdk|square|adyen|braintree|plaid|hubspot)\..*\.{_CHANGE}\w*",
            r"(github|gitlab|jira|zenpy|notion_client|atlassian|asana|trello)\..*"
            r"\.(create|update|delete|add|edit|append)\w*",
            r"simple_salesforce\..*\.(create|update|upsert|delete)",
            r"(kafka|confluent_kafka|aiokafka)\..*\.(send|produce|send_and_wait)",
            r"(pika|aio_pika)\..*\.(basic_publish|publish)",
            r"(redis|aioredis|valkey)\..*\.(set|setex|lpush|rpush|xadd|publish|incr|incrby|sadd"
            r"|hset|delete|zadd)",
            r"(pymongo|motor)\..*\.(insert|update|replace|delete|bulk)_?\w*",
            r"google\.cloud\..*\.(publish|insert_rows\w*|upload_\w+|create_\w+|set|add)",
            r"(resend|postmarker|mailgun|mailjet_rest)\..*\.send\w*",
        )
    )
)
_SDK_READS = re.compile(
    r"(stripe|semel\.stripe|boto3|slack_sdk|twilio|hubspot|github|gitlab|jira|zenpy|notion_client"
    r"|simple_salesforce|redis|aioredis|pymongo|motor|google\.cloud|square)\..*"
    r"\.(get|list|retrieve|search|find|query|fetch|lookup|exists|describe|head|hget|sismember"
    r"|scan|conversations_history|do_search)\w*\Z"
)
_MAIL = re.compile(
    r"((smtplib\.SMTP(_SSL)?\(\)|aiosmtplib\.SMTP\(\))\.(send_message|sendmail)|aiosmtplib\.send"
    r"|yagmail\.SMTP\(\)\.send|django\.core\.mail\.send_mail)\Z"
)
_SQL = re.compile(r"\.?(execute|executemany|fetch|fetchrow|fetchval|exec|scalar|scalars)\Z")
_SQL_WRITE = re.compile(r"\s*(with\b.*\)\s*)?(insert|update|delete|merge|replace|upsert)\b", re.I)
_SQL_READ = re.compile(r"\s*(with|select)\b", re.I)
_SQL_BUILT = re.compile(r"sqlalchemy\.(\w+\.)*(?P<verb>insert|update|delete|select)\(\)")

_CACHE = re.compile(r"(redis|aioredis|valkey|pymemcache|memcache|aiomcache)\b.*\.(set|setex)\Z")
_CACHE_READ = re.compile(r"(redis|aioredis|valkey|pymemcache|memcache|aiomcache)\b.*\.\w+\Z")
_HOST = re.compile(r"https?://(?P<host>[^/{}?#]+)(?=[/?#]|\Z)", re.I)
_NO_THING = re.compile(r"v?\d+(\.\d+)*|api|rest")

#: Verbs of a client that nobody knows. Only asked where something else points the same way.
_MAYBE = re.compile(rf".*\.{_CHANGE}\w*\Z")


def outside(path: str, method: str, address: str, statement: str) -> Outside | None:
    """What a call does outside, by its path; `method` and `address` of a request, and the statement
    of a query, where they are known."""
    if _MODEL.match(path) or _BEDROCK.match(path):
        return Outside("model", "model")
    found = _http(path, method, address)
    if found is not None:
        return found
    if _MAIL.match(path):
        return Outside("write", "mail")
    if _SDK_WRITES.match(path):
        return Outside("write", "sdk", path.startswith("semel."))
    if _SDK_READS.match(path):
        return Outside("read", "sdk")
    return _sql(path, statement)


def _http(path: str, method: str, address: str) -> Outside | None:
    if path == "urllib.request.urlopen":
        return Outside("write" if method.lower() in _VERBS else "read", "http")
    match = _HTTP.match(path)
    if match is None:
        return None
    verb = match["verb"]
    if verb in _BY_METHOD and verb != "build_request":
        verb = method.lower()
    kind = _VERBS.get(verb) or _ASKING.get(verb)
    if kind is None:
        return None
    if kind == "write" and verb == "post" and _QUESTION.search(address):
        kind = "read"
    return Outside("write" if kind == "write" else "read", "http", path.startswith("semel."))


def _sql(path: str, statement: str) -> Outside | None:
    if not _SQL.search(path):
        return None
    built = _SQL_BUILT.match(statement)
    if built is not None:
        return Outside("read" if built["verb"] == "select" else "write", "sql")
    if _SQL_WRITE.match(statement):
        return Outside("write", "sql")
    return Outside("read", "sql") if _SQL_READ.match(statement) else None


def is_built(path: str) -> bool:
    """Whether this is a statement that was built of parts, and no text."""
    return _SQL_BUILT.match(path) is not None


def is_cached(path: str) -> bool:
    """Whether this puts a value where whoever misses it puts the same one again."""
    return _CACHE.match(path) is not None


def is_cache_read(path: str) -> bool:
    """Whether this asks where values are put that can be had again."""
    return _CACHE_READ.match(path) is not None


def is_elsewhere(read: str, write: str) -> bool:
    """Whether two addresses are surely about different things: what is made at the one is not what
    was looked for at the other."""
    hosts = {match["host"] for match in (_HOST.match(read), _HOST.match(write)) if match}
    if len(hosts) > 1:
        return True
    if _QUESTION.search(read):
        # A search names what it looks for in its question.
        return False
    asked, made = _things(read), _things(write)
    return bool(asked and made) and not asked & made


def _things(address: str) -> set[str]:
    """The things that an address names, in the singular."""
    path = re.split(r"[?#]", _HOST.sub("", address))[0].lower()
    words = (word for word in path.split("/") if word and not _NO_THING.fullmatch(word))
    return {word.removesuffix("s") for word in words if "{}" not in word}


def may_write(path: str) -> bool:
    """Whether a client that is not known looks as if it changed something."""
    return not path.startswith(("semel.", "builtins.")) and _MAYBE.match(path) is not None


FOREIGN = re.compile(
    r"(asyncio\.(sleep|to_thread|wait_for|timeout|open_connection|create_subprocess_\w+"
    r"|start_server|run_coroutine_threadsafe)"
    r"|time\.sleep|threading\.(Thread|Timer)\(\)\.start|socket\.(create_connection|socket\(\)\.\w+)"
    r"|subprocess\.\w+|os\.system|concurrent\.futures\.\w+\(\)\.(submit|map)"
    r"|asyncio\.get_(running|event)_loop\(\)\.(run_in_executor|call_later|call_at)"
    r"|anyio\.(sleep|to_thread\.run_sync)|trio\.sleep|builtins\.input)\Z"
)
