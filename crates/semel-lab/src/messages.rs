//! Just enough of Postgres' protocol to know which answer belongs to which request.
//!
//! Both directions are cut into messages, so it does not matter how the bytes arrive. A request is
//! a simple query, or all messages up to a `Sync`; the server answers each with messages up to one
//! `ReadyForQuery`. So the requests sent and the answers ended are counted, and compared.

use std::collections::HashMap;

/// Postgres allows no longer message, so a longer one is another protocol.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// Cuts a stream into messages.
#[derive(Default)]
pub(crate) struct Messages {
    bytes: Vec<u8>,
    is_foreign: bool,
}

/// The start of a message, before its length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// A client's first messages have no type.
    Untyped,
    Typed,
    /// The answer to a question for encryption is a single letter.
    Letter,
}

impl Messages {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole message. Of a foreign protocol, whatever is there.
    pub(crate) fn next(&mut self, form: Form) -> Option<Vec<u8>> {
        let start = match form {
            Form::Untyped => 0,
            Form::Typed => 1,
            Form::Letter => return (!self.bytes.is_empty()).then(|| self.take(1)),
        };
        if !self.is_foreign {
            let length = number(self.bytes.get(start..)?)? as usize;
            self.is_foreign = !(4..=MESSAGE_BYTES_MAX).contains(&length);
            if !self.is_foreign {
                let end = start + length;
                return (self.bytes.len() >= end).then(|| self.take(end));
            }
        }
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.bytes.split_off(count);
        std::mem::replace(&mut self.bytes, rest)
    }
}

/// What one connection has said so far.
#[derive(Default)]
pub(crate) struct Conversation {
    is_started: bool,
    letters_awaited: u32,
    /// Requests sent whole; the start of the connection is the first.
    requests: u64,
    answers: u64,
    /// What the client prepared, by name.
    statements: HashMap<Vec<u8>, Vec<u8>>,
    /// The statement that an `Execute` would run now.
    bound: Vec<u8>,
    unanswered: Option<u64>,
}

impl Conversation {
    pub(crate) fn request_form(&self) -> Form {
        if self.is_started { Form::Typed } else { Form::Untyped }
    }

    pub(crate) fn answer_form(&self) -> Form {
        if self.letters_awaited > 0 { Form::Letter } else { Form::Typed }
    }

    /// Notes a client's message, and answers what the server will run because of it, if anything.
    pub(crate) fn request(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        if !self.is_started {
            match message.get(4..).and_then(number) {
                Some(SSL_REQUEST | GSS_REQUEST) => self.letters_awaited += 1,
                Some(CANCEL_REQUEST) | None => {}
                Some(_) => {
                    self.is_started = true;
                    self.requests = 1;
                }
            }
            return None;
        }
        let body = message.get(5..).unwrap_or_default();
        match message[0] {
            b'Q' => {
                self.requests += 1;
                return Some(body.to_vec());
            }
            b'P' => {
                let (name, rest) = text(body);
                self.statements.insert(name.to_vec(), rest.to_vec());
            }
            b'B' => {
                let (_portal, rest) = text(body);
                let (name, values) = text(rest);
                self.bound = self.statements.get(name).cloned().unwrap_or_default();
                self.bound.extend_from_slice(values);
            }
            b'E' => return Some(self.bound.clone()),
            b'S' | b'F' => self.requests += 1,
            _ => {}
        }
        None
    }

    /// The answer to the message just noted shall not be delivered.
    pub(crate) fn withhold_answer(&mut self, message: &[u8]) {
        let is_whole = message[0] == b'Q';
        self.unanswered = Some(if is_whole { self.requests - 1 } else { self.requests });
    }

    /// Notes a server's message and tells what to do with it.
    pub(crate) fn answer(&mut self, message: &[u8], form: Form) -> Fate {
        if form == Form::Letter {
            self.letters_awaited -= 1;
            return Fate::Deliver;
        }
        let is_last = message[0] == b'Z';
        let is_withheld = self.unanswered == Some(self.answers);
        self.answers += u64::from(is_last);
        match (is_withheld, is_last) {
            (false, _) => Fate::Deliver,
            (true, false) => Fate::Swallow,
            (true, true) => Fate::Cut,
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) enum Fate {
    Deliver,
    Swallow,
    /// The server has done all that was asked: now the client may lose it.
    Cut,
}

pub(crate) fn contains(bytes: &[u8], marker: &[u8]) -> bool {
    marker.is_empty() || bytes.windows(marker.len()).any(|window| window == marker)
}

fn number(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// A text that ends with a zero, and what follows.
fn text(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind], &length.to_be_bytes()[..], body].concat()
    }

    fn started() -> Conversation {
        let mut conversation = Conversation::default();
        let startup = [&8_u32.to_be_bytes()[..], &196_608_u32.to_be_bytes()[..]].concat();
        assert_eq!(conversation.request(&startup), None);
        assert_eq!(conversation.answer(&message(b'Z', b"I"), Form::Typed), Fate::Deliver);
        conversation
    }

    #[test]
    fn messages_are_whole_however_the_bytes_arrive() {
        let sent = [message(b'Q', b"BEGIN\0"), message(b'Q', b"COMMIT\0")].concat();
        for size in 1..=sent.len() {
            let mut messages = Messages::default();
            let mut seen = Vec::new();
            for chunk in sent.chunks(size) {
                messages.push(chunk);
                while let Some(message) = messages.next(Form::Typed) {
                    seen.push(message);
                }
            }
            assert_eq!(seen, [message(b'Q', b"BEGIN\0"), message(b'Q', b"COMMIT\0")]);
        }
    }

    #[test]
    fn a_foreign_protocol_passes_as_it_comes() {
        let mut messages = Messages::default();
        messages.push(b"GET / HTTP/1.1");
        assert_eq!(messages.next(Form::Untyped).as_deref(), Some(&b"GET / HTTP/1.1"[..]));
        messages.push(b"\r");
        assert_eq!(messages.next(Form::Untyped).as_deref(), Some(&b"\r"[..]));
    }

    #[test]
    fn only_the_marked_request_of_a_pipeline_loses_its_answer() {
        let mut conversation = started();
        assert!(conversation.request(&message(b'Q', b"BEGIN\0")).is_some());
        let commit = message(b'Q', b"COMMIT\0");
        assert_eq!(conversation.request(&commit).as_deref(), Some(&b"COMMIT\0"[..]));
        conversation.withhold_answer(&commit);
        // BEGIN was sent first and is answered first.
        for (kind, want) in
            [(b'C', Fate::Deliver), (b'Z', Fate::Deliver), (b'C', Fate::Swallow), (b'Z', Fate::Cut)]
        {
            assert_eq!(conversation.answer(&message(kind, b"x"), Form::Typed), want);
        }
    }

    #[test]
    fn a_prepared_statement_is_known_by_its_text_when_it_is_executed() {
        let mut conversation = started();
        assert_eq!(conversation.request(&message(b'P', b"s1\0COMMIT\0\0\0")), None);
        assert_eq!(conversation.request(&message(b'S', b"")), None, "prepared, not yet run");
        assert_eq!(conversation.request(&message(b'B', b"\0s1\0\0\0\0\0\0\0")), None);
        let execute = message(b'E', b"\0\0\0\0\0");
        let run = conversation.request(&execute).unwrap();
        assert!(contains(&run, b"COMMIT"));
        conversation.withhold_answer(&execute);
        assert_eq!(conversation.request(&message(b'S', b"")), None);
        for (kind, want) in [
            (b'1', Fate::Deliver),
            (b'Z', Fate::Deliver),
            (b'2', Fate::Swallow),
            (b'C', Fate::Swallow),
            (b'Z', Fate::Cut),
        ] {
            assert_eq!(conversation.answer(&message(kind, b"x"), Form::Typed), want);
        }
    }
}
