"""What gives another value each time, by its path."""

from __future__ import annotations

import re

from ._values import words

_TIME = [
    r"time\.(time|time_ns|monotonic|monotonic_ns|perf_counter|perf_counter_ns|process_time)",
    r"time\.(localtime|gmtime|ctime|strftime|asctime)",
    r"datetime\.datetime\.(now|utcnow|today)",
    r"datetime\.date\.today",
    r"pendulum\.(now|today|yesterday|tomorrow)",
    r"arrow\.(now|utcnow)",
    r"whenever\.\w+\.(now|now_in_system_tz)",
    r"django\.utils\.timezone\.(now|localtime|localdate)",
    r"pandas\.Timestamp\.(now|utcnow|today)",
    r"(wsgiref\.handlers\.format_date_time|email\.utils\.(formatdate|localtime))",
]
_CHANCE = [
    r"uuid\.(uuid1|uuid4|uuid6|uuid7)",
    r"random\.(?!Random\b|seed\b|getstate\b|setstate\b)\w+",
    r"random\.(System)?Random\(\)\.\w+",
    r"secrets\.\w+",
    r"os\.(urandom|getrandom)",
    r"numpy\.random\.\w+(\(\)\.\w+)?",
    r"tempfile\.(mktemp|mkdtemp|mkstemp)",
    r"email\.utils\.make_msgid",
    r"(nanoid\.generate|shortuuid\.(uuid|random)|shortuuid\.ShortUUID\(\)\.\w+)",
    r"(ulid\.(new|ULID)|uuid6\.uuid[67]|uuid_utils\.uuid[1467]|ksuid\.(ksuid|Ksuid))",
    r"(bson\.ObjectId|bson\.objectid\.ObjectId|cuid2?\.(cuid|cuid_wrapper|Cuid\(\)\.generate))",
    r"faker\.Faker\(\)\.\w+",
]
_WORKER = [
    r"os\.(getpid|getppid|uname|getlogin)",
    r"socket\.(gethostname|getfqdn)",
    r"platform\.(node|uname|platform)",
    r"uuid\.getnode",
    r"threading\.(get_ident|get_native_id|current_thread|main_thread)",
    r"multiprocessing\.(current_process|parent_process)",
    r"asyncio\.current_task",
    r"builtins\.(id|hash)",
    r"tempfile\.gettempdir",
]
_ATTEMPT = [
    r"semel\.(ctx|intent\(\))\.attempt",
    r"(.*\.)?request\.(retries|attempts)",
    r"(.*\.)?(attempt_number|retry_state\.\w+|delivery_count|approximate_receive_count)",
]
#: Calls that give another value each time.
CALLED = {
    label: re.compile("(" + "|".join(patterns) + r")\Z")
    for label, patterns in (("time", _TIME), ("chance", _CHANCE), ("worker", _WORKER))
}
#: Attributes that do.
READ = re.compile("(" + "|".join(_ATTEMPT) + r")\Z")

#: Names that say it themselves, wherever their value comes from.
ATTEMPT_NAMES = words(
    """
    attempt attempts attempt_no attempt_number attempt_count try_number try_no retry retries
    retry_count retry_number num_retries redelivery_count delivery_count delivery_attempt
    """
)
WORKER_NAMES = words(
    """
    worker worker_id worker_name pid process_id hostname host_name pod pod_name thread_id
    instance_id container_id
    """
)
_WORKER_VARIABLES = re.compile(
    r"(HOSTNAME|HOST|COMPUTERNAME|POD_NAME|POD_UID|DYNO|WORKER_ID|WORKER_NAME|INSTANCE_ID"
    r"|FLY_MACHINE_ID|K_REVISION|CONTAINER_ID|NODE_NAME)\Z"
)


def called(path: str, arguments: int) -> str | None:
    """The label of what a call gives, if it gives another value each time."""
    # Of a moment that is handed in it is a form of that moment.
    if path in ("time.localtime", "time.gmtime", "time.ctime", "time.asctime") and arguments:
        return None
    if path == "time.strftime" and arguments > 1:
        return None
    for label, pattern in CALLED.items():
        if pattern.match(path):
            return label
    return None


def is_worker_variable(name: object) -> bool:
    """Whether a variable of the environment differs from process to process."""
    return isinstance(name, str) and _WORKER_VARIABLES.match(name) is not None


BROAD = words(
    """
    customer customer_id user user_id username tenant tenant_id account account_id org org_id
    organization organization_id organisation_id company company_id team team_id workspace
    workspace_id client_id contact_id member_id email recipient sender phone address channel
    channel_id to region environment env queue topic type kind category status currency amount
    """
)
#: What an effect does to the broad thing itself: once per customer is what is meant.
ONCE_EACH = re.compile(
    r"(create|register|delete|remove|close|provision|deprovision|onboard|offboard|welcome|sign.?up"
    r"|activate|deactivate|invite|upsert|sync|import|enrol+|erase|verify)",
    re.IGNORECASE,
)
_FREE_TEXT = (
    r"(.*_)?(subject|body|text|content|contents|description|comment|comments|prompt|html|markdown"
    r"|payload|raw|summary|wording|reply|completion|message_text)"
)
_TEXT = re.compile(_FREE_TEXT + r"\Z")
_SPECIFIC = re.compile(r"(?!.*(customer|user|tenant|account|org)).*_?(id|ref|reference|number)\Z")


def is_free_text(name: str) -> bool:
    """Whether a parameter of this name is somebody's wording."""
    return _TEXT.match(name) is not None


def is_specific(name: str) -> bool:
    """Whether a parameter of this name names one event."""
    return name not in BROAD and _SPECIFIC.match(name) is not None
