//! Who looks at the console. A session is kept in memory and ends with the process; it holds the
//! token itself, so that a token that is revoked ends its sessions, too.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use semel_core::access::Presented;
use sha2::{Digest, Sha256};

/// Without a request for so long, a session ends.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// However busy, it ends after this.
const WHOLE: Duration = Duration::from_secs(12 * 60 * 60);
/// Sessions at once: beyond, the one that was silent longest ends.
const SESSIONS_MAX: usize = 10_000;

/// Wrong tokens in a minute that name one card, and all together.
const TRIES_OF_ONE_MAX: u32 = 10;
const TRIES_MAX: u32 = 300;
const TRIES_WITHIN: Duration = Duration::from_secs(60);

struct Session {
    token: String,
    form_value: String,
    born: Instant,
    seen: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.seen) >= IDLE || now.duration_since(self.born) >= WHOLE
    }
}

#[derive(Default)]
struct Tries {
    since: Option<Instant>,
    all: u32,
    of_one: HashMap<String, u32>,
}

/// All sessions of a server.
pub(crate) struct Sessions {
    /// By the digest of their id: what is in memory cannot be presented.
    sessions: Mutex<HashMap<[u8; 32], Session>>,
    tries: Mutex<Tries>,
    /// What forms bring along where nobody has signed in.
    open_value: String,
}

impl Default for Sessions {
    fn default() -> Sessions {
        let open_value = random().unwrap_or_default();
        Sessions { sessions: Mutex::default(), tries: Mutex::default(), open_value }
    }
}

impl Sessions {
    /// Opens a session with a new id, which is returned; the one that was there before ends.
    pub(super) fn open(&self, token: &str, before: Option<&str>, now: Instant) -> Option<String> {
        let (id, form_value) = (random()?, random()?);
        let mut sessions = lock(&self.sessions);
        if let Some(before) = before {
            sessions.remove(&digest(before));
        }
        if sessions.len() >= SESSIONS_MAX {
            sessions.retain(|_, session| !session.is_over(now));
        }
        if sessions.len() >= SESSIONS_MAX
            && let Some(silent) = sessions.iter().min_by_key(|(_, one)| one.seen).map(|one| *one.0)
        {
            sessions.remove(&silent);
        }
        let session = Session { token: token.to_owned(), form_value, born: now, seen: now };
        sessions.insert(digest(&id), session);
        Some(id)
    }

    /// Token and form value of a session that is not over.
    pub(super) fn find(&self, id: &str, now: Instant) -> Option<(String, String)> {
        let mut sessions = lock(&self.sessions);
        let name = digest(id);
        let session = sessions.get_mut(&name)?;
        if session.is_over(now) {
            sessions.remove(&name);
            return None;
        }
        session.seen = now;
        Some((session.token.clone(), session.form_value.clone()))
    }

    pub(super) fn close(&self, id: &str) {
        lock(&self.sessions).remove(&digest(id));
    }

    /// What the forms of a page bring along that everybody may see.
    pub(super) fn open_value(&self) -> &str {
        &self.open_value
    }

    /// Whether a token may be tried now. Those that name one card are counted together, so that
    /// whoever guesses at one keeps nobody else out.
    pub(super) fn may_try(&self, token: &str, now: Instant) -> bool {
        let mut tries = lock(&self.tries);
        if tries.since.is_none_or(|since| now.duration_since(since) >= TRIES_WITHIN) {
            *tries = Tries { since: Some(now), ..Tries::default() };
        }
        let of_one = tries.of_one.get(&card(token)).copied().unwrap_or(0);
        of_one < TRIES_OF_ONE_MAX && tries.all < TRIES_MAX
    }

    /// Counts a token that was wrong.
    pub(super) fn note_wrong(&self, token: &str) {
        let mut tries = lock(&self.tries);
        tries.all += 1;
        *tries.of_one.entry(card(token)).or_default() += 1;
    }
}

fn card(token: &str) -> String {
    let named = Presented::read(token);
    named.map(|named| format!("{} {}", named.namespace, named.id)).unwrap_or_default()
}

fn digest(id: &str) -> [u8; 32] {
    Sha256::digest(id.as_bytes()).into()
}

/// 256 random bits, or none where the system has none to give.
fn random() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_14_a_session_ends_when_idle_and_in_any_case() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let id = sessions.open("t", None, start).unwrap();
        let after = |minutes: u64| start + Duration::from_secs(minutes * 60);
        assert!(sessions.find(&id, after(29)).is_some());
        assert!(sessions.find(&id, after(58)).is_some(), "seen in between");
        assert!(sessions.find(&id, after(88)).is_none(), "idle for half an hour");
        let id = sessions.open("t", None, start).unwrap();
        for minutes in (0..720).step_by(20) {
            assert!(sessions.find(&id, after(minutes)).is_some(), "{minutes}");
        }
        assert!(sessions.find(&id, after(720)).is_none(), "twelve hours");
        assert!(sessions.find(&id, after(1)).is_none(), "gone for good");
    }

    #[test]
    fn sec_14_signing_in_gives_a_new_id_and_ends_the_old_session() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.open("t", None, now).unwrap();
        let second = sessions.open("t", Some(&first), now).unwrap();
        assert_ne!(first, second);
        assert!(sessions.find(&first, now).is_none());
        let values = [&second, &first].map(|id| sessions.find(id, now).map(|found| found.1));
        assert!(values[0].is_some() && values[1].is_none());
        sessions.close(&second);
        assert!(sessions.find(&second, now).is_none());
    }

    #[test]
    fn sec_16_wrong_tokens_are_throttled_by_the_card_they_name_and_all_together() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let token = |id: u32| format!("semel_default.{id}.ff");
        for _ in 0..TRIES_OF_ONE_MAX {
            assert!(sessions.may_try(&token(1), now));
            sessions.note_wrong(&token(1));
        }
        assert!(!sessions.may_try(&token(1), now));
        assert!(sessions.may_try(&token(2), now), "nobody else is kept out");
        for id in 10..TRIES_MAX {
            sessions.note_wrong(&token(id));
        }
        assert!(!sessions.may_try(&token(2), now), "all together");
        assert!(sessions.may_try(&token(1), now + TRIES_WITHIN), "a minute later");
    }
}
