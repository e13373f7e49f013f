//! Every maximum, with its reason. A limit is part of the contract: beyond it we refuse, never cut.

/// An encoded key. The shortest limit among providers that take keys from callers is 255.
pub const KEY_BYTES_MAX: usize = 255;
/// An action or namespace: a name that people type and read in tables.
pub const NAME_BYTES_MAX: usize = 100;
/// An input, receipt or reason as JSON text: larger values belong into a blob, by reference.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;
/// A reason or an actor's name: a sentence, not a document.
pub const REASON_BYTES_MAX: usize = 2_000;
/// The shape of an effect's result: enough for a form, little beside the row.
pub const SHAPE_BYTES_MAX: usize = 8 * 1024;
/// So much of a shape is told to whoever gave a receipt that does not fit.
pub const SHAPE_SHOWN_BYTES_MAX: usize = 600;
/// A declared downstream key: what the strictest known provider accepts.
pub const DOWNSTREAM_KEY_BYTES_MAX: usize = 255;
/// Nesting of a JSON value. Deeper ones are refused: readers elsewhere descend by recursion.
pub const JSON_DEPTH_MAX: usize = 64;
/// Attempts of one generation: they live in the effect's one row, so they bound its size.
pub const ATTEMPTS_MAX: u32 = 100;
/// Decisions of one generation: like attempts, they live in the row.
pub const DECISIONS_MAX: usize = 100;
/// Alarms of one generation: after the first few more of them say nothing new.
pub const ALARMS_MAX: usize = 100;
/// Generations of one key: each is a row, and a key redone more often is not one intent.
pub const GENERATIONS_MAX: u32 = 1_000;

/// The default lease: long enough to ride out a pause of seconds, short enough to take over soon.
pub const LEASE_MS: u64 = 30_000;
/// The default hard deadline of an attempt.
pub const DEADLINE_MS: u64 = 60_000;
/// How long before the lease's end the permit to send ends.
pub const MARGIN_MS: u64 = 2_000;
/// The default settle window D.
pub const SETTLE_MS: u64 = 120_000;
/// How long a duplicate is held before it is told "in progress".
pub const HOLD_MS: u64 = 25_000;
/// The default replay window: 30 days.
pub const WINDOW_MS: u64 = 30 * DAY_MS;
/// How long a tombstone answers "expired": two years, longer than any known redelivery.
pub const TOMBSTONE_MS: u64 = 730 * DAY_MS;
/// Any declared duration: a hundred years keeps all sums of times inside an i64 of milliseconds.
pub const DURATION_MS_MAX: u64 = 36_500 * DAY_MS;
/// The shortest lease: below it the renewals would be most of the work.
pub const LEASE_MS_MIN: u64 = 100;
/// How long after its commit an attempt may be resumed by its own id.
pub const RESUME_MS: u64 = 10_000;
/// How long a user's function may keep a `transaction` open: every writer of the file waits for it.
pub const TRANSACTION_MS_MAX: u64 = 1_000;
/// How long one process may have the turn to write a file before those who wait name it and stop
/// waiting: longer than any transaction, and than a checkpoint on a slow disk.
pub const TURN_MS_MAX: u64 = 5_000;

/// A value in a journal; a larger one goes into a blob beside it, so that replay stays quick.
pub const INLINE_BYTES_MAX: usize = 256 * 1024;
/// The trace of an exception in a journal: some hundred frames, of which the last are kept. The one
/// thing that is cut: nobody but people reads it.
pub const RAISED_TRACE_BYTES_MAX: usize = 16 * 1024;
/// What an exception is rebuilt from: a message and a few values. With more it is only told.
pub const RAISED_ARGS_BYTES_MAX: usize = 16 * 1024;
/// The class of an exception, with its module.
pub const RAISED_KIND_BYTES_MAX: usize = 500;
/// What a wait says to operators: it lies in the row of its run, which is rewritten often.
pub const NOTE_BYTES_MAX: usize = 16 * 1024;
/// An input that is shown in a notice: what fits into a mail and a chat.
pub const NOTICE_INPUT_BYTES_MAX: usize = 64 * 1024;
/// How often people's occasions are looked for.
pub const NOTICE_LOOK_MS: u64 = 5_000;
/// Commands of one run that may be open at once: each is a task or a row while it lasts.
pub const COMMANDS_OPEN_MAX: usize = 1_000;
/// Entries of one journal: replay reads them all. A longer loop belongs into several runs.
pub const JOURNAL_ENTRIES_MAX: u64 = 100_000;
/// Deliveries that wait in one inbox: whoever sends more is told, before memory is.
pub const INBOX_MAX: usize = 1_000;
/// Runs that wait for one effect, beyond which a run looks for itself once a minute.
pub const WAITERS_MAX: usize = 1_000;
/// After how long it is asked whether a callback is still of use to anybody.
pub const CALLBACK_MS: u64 = 90 * DAY_MS;
/// For how long a link to a question is good, where nobody says.
pub const APPROVAL_LINK_MS: u64 = 3 * DAY_MS;
/// For how long a link to a question is good at most: a credential in a mailbox must end.
pub const APPROVAL_LINK_MS_MAX: u64 = 90 * DAY_MS;
/// For how long a link whose time is over still says so, and what was decided.
pub const APPROVAL_LINK_KEPT_MS: u64 = 30 * DAY_MS;
/// Releases of one workflow that are remembered: each change of its source may be one.
pub const RELEASES_MAX: usize = 200;
/// After how long without a word from any worker a release counts as gone, in milliseconds.
pub const RELEASE_GONE_MS: i64 = 60_000;
/// After how long a run that could not be taken up is tried again for the first time.
pub const SET_ASIDE_MS_MIN: u64 = 1_000;
/// After how long at the latest: what was repaired goes on within ten minutes.
pub const SET_ASIDE_MS_MAX: u64 = 10 * 60_000;
/// Why a run was set aside: a sentence, in its row.
pub const SET_ASIDE_BYTES_MAX: usize = 500;
/// Lanes of runs that need no code that one look asks for: one for each namespace.
pub const CODELESS_LANES_MAX: usize = 64;
/// Rows that one look for work passes over because they cannot be read: those of a tenant whose key
/// was dropped must not hide the others.
pub const UNREADABLE_ROWS_MAX: usize = 4_096;
/// Runs that pass one gate at once: they are listed in one record, rewritten with each of them.
pub const SLOTS_MAX: u32 = 1_000;
/// Runs that one worker advances at once: each holds its code's state in memory.
pub const RUNS_HELD_MAX: usize = 1_000;
/// Polls of a body without an answer from outside: beyond them it does not end by itself.
pub const POLLS_MAX: usize = 100_000;
/// A run whose next timer is nearer than this stays in memory: parking and replaying cost more.
pub const LINGER_MS: u64 = 1_000;
/// How long a run waits before it looks again at an effect that nobody will wake it for.
pub const LOOK_AGAIN_MS: u64 = 60_000;

/// A cron pattern: all its values, written out, are shorter.
pub const CRON_BYTES_MAX: usize = 500;
/// Ticks that one decision about a schedule starts: the rest has its turn in the next, and other
/// schedules in between.
pub const TICKS_FIRED_MAX: usize = 100;
/// Ticks that one decision about a schedule looks at: a week of minutes, some milliseconds of work.
pub const TICKS_SEEN_MAX: usize = 10_080;
/// How late a tick may be that is not to be caught up: the shortest time between two ticks.
pub const TICK_LATE_MS_MAX: i64 = 60_000;

/// Subjects whose repeats are counted in memory before they are written: beyond it they are written
/// at once, and beyond twice as many a count is left out. A count is a lower bound.
pub const REPEATS_SUBJECTS_MAX: usize = 1_024;
/// After how long it is asked whether the subject of a count of repeats is still there.
pub const REPEATS_MS: u64 = WINDOW_MS;

/// A loop of the engine that got nowhere for this long hangs or is dead: each looks at least once a
/// second, and health must tell within ten.
pub const LOOP_SILENT_MS_MAX: u64 = 8_000;
/// How far the time in a signed delivery may be from ours, on both sides: what the senders' own
/// libraries allow.
pub const HOOK_AGE_MS_MAX: i64 = 300_000;
/// Signatures in one delivery: a rotation has two, and each costs work before anybody is believed.
pub const HOOK_SIGNATURES_MAX: usize = 20;
/// Deliveries of one trigger that are kept, and as many that were refused: they lie in one card.
pub const HOOK_DELIVERIES_MAX: usize = 100;
/// What is told of one delivery: a sentence.
pub const HOOK_DETAIL_BYTES_MAX: usize = 300;
/// Members of an input that a trigger makes, parts of its key, attributes of an event.
pub const HOOK_MEMBERS_MAX: usize = 100;
/// A template of a trigger: some names and pointers.
pub const HOOK_TEMPLATE_BYTES_MAX: usize = 2_000;
/// A secret, in the file that it is read from.
pub const HOOK_SECRET_BYTES_MAX: usize = 64 * 1024;
/// Triggers whose deliveries are noted in memory before they are written.
pub const HOOK_TRIGGERS_MAX: usize = 1_024;

/// Tries of load, decide, commit before an operation gives up on a row that keeps changing.
pub const COMMIT_TRIES_MAX: usize = 64;
/// How long work in memory waits for a store that is away, instead of being done again by somebody
/// else: longer than a restart, a failover or a full disk that somebody is called for.
pub const OUTAGE_MS_MAX: u64 = 15 * 60_000;
/// Declarations of one registry: more effects than any application has, and few enough to read.
pub const DECLARATIONS_MAX: usize = 2_000;
/// Runs and calls that an observer remembers to compare the next with: some megabytes.
pub const OBSERVED_MAX: usize = 2_000;
/// Rows that one look for suspects reads: some minutes of reading beside everybody else's.
pub const SUSPECT_ROWS_MAX: usize = 1_000_000;
/// Inputs that one look for suspects remembers: about a hundred megabytes.
pub const SUSPECT_INPUTS_MAX: usize = 200_000;
/// Rows of one page of a listing.
pub const PAGE_ROWS_MAX: usize = 1_000;
/// Rows that one page of a listing passes over to find those that are asked for: beyond it the page
/// is short, and says where the search goes on. Some ten milliseconds of reading.
pub const LIST_ROWS_MAX: usize = 10_000;
/// Rows that one turn of the sweeper or the job touches: short commits, so callers get through.
pub const SWEEP_ROWS_MAX: usize = 256;
/// Batches waiting for the writer. Beyond it callers wait: memory stays bounded.
pub const COMMIT_QUEUE_MAX: usize = 4_096;
/// Batches in one group commit: bounds how long the others wait for the first.
pub const GROUP_MAX: usize = 1_024;
/// Writes of one batch that comes over the wire: more than the open commands of a run make at once.
pub const BATCH_WRITES_MAX: usize = 10_000;
/// Bytes of batches that travel in one request; a larger batch travels alone.
pub const GROUP_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A request of a worker: the large values that one batch may bring.
pub const WORKER_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Rows of one answer to a worker: all that it may hold, and one look more.
pub const WORKER_ROWS_MAX: usize = RUNS_HELD_MAX + SWEEP_ROWS_MAX;
/// Bytes of entries in one answer to a worker, beyond the first: it asks on for the rest.
pub const WORKER_ENTRIES_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a worker's question for news is held open: shorter than what proxies cut.
pub const WORKER_POLL_MS: u64 = 25_000;
/// How far the wall clock may be behind the latest commit before ages are not trusted: NTP nudges.
pub const WALL_SLACK_MS: i64 = 1_000;
/// How often a waiter looks for itself when no hint arrives.
pub const POLL_MS: u64 = 1_000;
/// How long a due effect may wait for code before it is listed as unattended.
pub const UNATTENDED_MS: u64 = 10_000;
/// A secret that is looked for in texts: a shorter one would be found in words and numbers.
pub const SECRET_BYTES_MIN: usize = 8;
/// Declared secrets: every text that is written is searched for all of them.
pub const SECRETS_MAX: usize = 100;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
