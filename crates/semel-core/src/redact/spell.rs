//! How a text spells a value: sign by sign, each as it is or escaped, and escaped again.
//!
//! A sign may be written by Python, JSON or a shell (`\"`, `\x22`, `\u0022`), in a URL (`%22`) or
//! in HTML (`&quot;`, `&#34;`, `&#x22;`). Every sign of an escape may itself be escaped, so that
//! JSON in a URL in a `repr` is read as well. Each sign has its own number of layers: a writer may
//! leave alone what another escapes.

use std::collections::BTreeSet;

/// How often one sign may be escaped: JSON in JSON in a URL in a page.
pub(super) const LAYERS: u8 = 4;

/// One sign of a text.
#[derive(Clone, Copy)]
pub(super) enum Sign {
    Byte(u8),
    Point(char),
    /// `\xe9`: of bytes it is the byte, of text the character.
    Either(u8),
}

/// A sign, and where the next one begins.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) sign: Sign,
    pub(super) next: usize,
}

impl Sign {
    pub(super) fn ascii(self) -> Option<u8> {
        match self {
            Sign::Byte(byte) if byte.is_ascii() => Some(byte),
            Sign::Point(point) => u8::try_from(point).ok().filter(u8::is_ascii),
            Sign::Byte(_) | Sign::Either(_) => None,
        }
    }

    /// Of how many bytes of a value this sign is the beginning: none, or one of these numbers.
    fn begins(self, value: &[u8]) -> [Option<usize>; 2] {
        let is_byte = |byte: u8| {
            // Forms write a space as `+`.
            let first = *value.first()?;
            (first == byte || (first == b' ' && byte == b'+')).then_some(1)
        };
        let is_point = |point: char| {
            let mut bytes = [0; 4];
            let bytes = point.encode_utf8(&mut bytes).as_bytes();
            value.starts_with(bytes).then_some(bytes.len())
        };
        match self {
            Sign::Byte(byte) => [is_byte(byte), None],
            Sign::Point('+') => [is_byte(b'+'), None],
            Sign::Point(point) => [is_point(point), None],
            Sign::Either(byte) => [is_byte(byte), is_point(byte.into())],
        }
    }
}

/// Whether a byte may begin an escape.
pub(super) fn is_special(byte: u8) -> bool {
    matches!(byte, b'\\' | b'%' | b'&' | b'=')
}

/// Whether one of the ways to read the sign at a place begins a value.
pub(super) fn may_begin(bytes: &[u8], at: usize, value: &[u8]) -> bool {
    ways(bytes, at).any(|read| read.sign.begins(value).iter().any(Option::is_some))
}

/// How a value ends that is spelled from a place on. The later of two is the greater one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// The text ends before the value, and has most of it: texts are shortened before they get
    /// here.
    Cut(usize),
    Whole(usize),
}

/// Where a value ends that is spelled from a place on.
pub(super) fn spelled(bytes: &[u8], from: usize, value: &[u8]) -> Option<End> {
    let enough = (value.len() / 2 + 1).max(crate::limits::SECRET_BYTES_MIN);
    let mut open = BTreeSet::from([(0, from)]);
    let mut end = None;
    while let Some((done, at)) = open.pop_first() {
        if done == value.len() {
            end = end.max(Some(End::Whole(at)));
            continue;
        }
        if at == bytes.len() && done >= enough {
            end = end.max(Some(End::Cut(at)));
        }
        if let Some(next) = soft_break(bytes, at).filter(|_| done > 0) {
            open.insert((done, next));
        }
        for Read { sign, next } in ways(bytes, at) {
            let more = sign.begins(&value[done..]).into_iter().flatten();
            open.extend(more.map(|more| (done + more, next)));
        }
    }
    end
}

/// Every way to read the sign at a place.
fn ways(bytes: &[u8], at: usize) -> impl Iterator<Item = Read> {
    let is_special = bytes.get(at).copied().is_some_and(is_special);
    let layers = if is_special { LAYERS } else { 0 };
    let quoted = is_special.then(|| quoted_printable(bytes, at)).flatten();
    (0..=layers).filter_map(move |layers| read(bytes, at, layers)).chain(quoted)
}

/// The sign at a place, with so many layers of escapes taken off where there are as many.
pub(super) fn read(bytes: &[u8], at: usize, layers: u8) -> Option<Read> {
    let first = *bytes.get(at)?;
    let plain = Read { sign: Sign::Byte(first), next: at + 1 };
    if layers == 0 || !is_special(first) {
        return Some(plain);
    }
    let below = Below { bytes, layers: layers - 1 };
    let intro = below.read(at)?;
    let escaped = match intro.sign.ascii() {
        Some(b'\\') => below.backslash(intro.next),
        Some(b'%') => below.hex(intro.next, 2).map(|(byte, next)| byte_of(byte, next)),
        Some(b'&') => below.entity(intro.next),
        Some(_) | None => None,
    };
    Some(escaped.unwrap_or(intro))
}

/// The sign at a place between the quotes of a JSON string. Half of a pair is no character.
pub(super) fn read_json(bytes: &[u8], at: usize) -> Option<Read> {
    let first = *bytes.get(at)?;
    let plain = Read { sign: Sign::Byte(first), next: at + 1 };
    if first != b'\\' {
        return Some(plain);
    }
    let length = if bytes.get(at + 1) == Some(&b'u') { 6 } else { 2 };
    let next = (at + length).min(bytes.len());
    let half = Read { sign: Sign::Point(char::REPLACEMENT_CHARACTER), next };
    Some(
        Below { bytes, layers: 0 }
            .backslash(at + 1)
            .filter(|read| read.next >= next)
            .unwrap_or(half),
    )
}

fn byte_of(value: u32, next: usize) -> Read {
    Read { sign: Sign::Byte(value.to_le_bytes()[0]), next }
}

fn point_of(value: u32, next: usize) -> Option<Read> {
    Some(Read { sign: Sign::Point(char::from_u32(value)?), next })
}

/// `=3D`, which mail has. It is nothing that other forms are made of: `key=c2VjcmV0`.
fn quoted_printable(bytes: &[u8], at: usize) -> Option<Read> {
    (bytes.get(at) == Some(&b'=')).then_some(())?;
    let (byte, next) = Below { bytes, layers: 0 }.hex(at + 1, 2)?;
    Some(byte_of(byte, next))
}

/// Where a line goes on that mail has broken.
fn soft_break(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?.strip_prefix(b"=")?;
    let rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
    Some(bytes.len() - rest.len())
}

/// The longest name of an entity, `#x10FFFF` and those below.
const ENTITY_SIGNS_MAX: usize = 8;

/// What HTML calls the signs of ASCII that somebody escapes.
const ENTITIES: [(&[u8], char); 32] = [
    (b"amp", '&'),
    (b"AMP", '&'),
    (b"lt", '<'),
    (b"LT", '<'),
    (b"gt", '>'),
    (b"GT", '>'),
    (b"quot", '"'),
    (b"QUOT", '"'),
    (b"apos", '\''),
    (b"excl", '!'),
    (b"num", '#'),
    (b"dollar", '$'),
    (b"percnt", '%'),
    (b"lpar", '('),
    (b"rpar", ')'),
    (b"ast", '*'),
    (b"plus", '+'),
    (b"comma", ','),
    (b"period", '.'),
    (b"sol", '/'),
    (b"colon", ':'),
    (b"semi", ';'),
    (b"equals", '='),
    (b"quest", '?'),
    (b"commat", '@'),
    (b"lsqb", '['),
    (b"bsol", '\\'),
    (b"rsqb", ']'),
    (b"lowbar", '_'),
    (b"grave", '`'),
    (b"verbar", '|'),
    (b"NewLine", '\n'),
];

/// A text with some layers taken off, of which the next one is read.
#[derive(Clone, Copy)]
struct Below<'a> {
    bytes: &'a [u8],
    layers: u8,
}

impl Below<'_> {
    fn read(self, at: usize) -> Option<Read> {
        read(self.bytes, at, self.layers)
    }

    /// So many digits, and where the next sign begins.
    fn digits(self, mut at: usize, count: usize, radix: u32) -> Option<(u32, usize)> {
        let mut value = 0;
        for _ in 0..count {
            let digit = self.read(at)?;
            value = value * radix + char::from(digit.sign.ascii()?).to_digit(radix)?;
            at = digit.next;
        }
        Some((value, at))
    }

    fn hex(self, at: usize, count: usize) -> Option<(u32, usize)> {
        self.digits(at, count, 16)
    }

    /// What stands behind a backslash.
    fn backslash(self, at: usize) -> Option<Read> {
        let Read { sign, next } = self.read(at)?;
        let sign = sign.ascii()?;
        let plain = |byte: u8| Some(Read { sign: Sign::Byte(byte), next });
        match sign {
            b'n' => plain(b'\n'),
            b'r' => plain(b'\r'),
            b't' => plain(b'\t'),
            b'b' => plain(8),
            b'f' => plain(12),
            b'v' => plain(11),
            b'a' => plain(7),
            b'x' => {
                let (byte, next) = self.hex(next, 2)?;
                let byte = byte.to_le_bytes()[0];
                let sign = if byte.is_ascii() { Sign::Byte(byte) } else { Sign::Either(byte) };
                Some(Read { sign, next })
            }
            b'u' => self.unicode(next),
            b'U' => self.hex(next, 8).and_then(|(point, next)| point_of(point, next)),
            b'0'..=b'7' => match self.digits(at, 3, 8) {
                Some((byte, next)) if byte <= 0xff => Some(byte_of(byte, next)),
                Some(_) | None => (sign == b'0').then_some(Read { sign: Sign::Byte(0), next }),
            },
            b' ' | b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => plain(sign),
            _ => None,
        }
    }

    /// `\u00e9`, `\ud83d\ude00` or `\u{e9}`, from behind the `u`.
    fn unicode(self, at: usize) -> Option<Read> {
        let Some((high, next)) = self.hex(at, 4) else {
            let open = self.read(at).filter(|open| open.sign.ascii() == Some(b'{'))?;
            let (point, next) = self.number(open.next, 16, b'}')?;
            return point_of(point, next);
        };
        if !(0xd800..0xdc00).contains(&high) {
            return point_of(high, next);
        }
        let slash = self.read(next).filter(|slash| slash.sign.ascii() == Some(b'\\'))?;
        let letter = self.read(slash.next).filter(|letter| letter.sign.ascii() == Some(b'u'))?;
        let (low, next) = self.hex(letter.next, 4)?;
        let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
        point_of(0x10000 + ((high - 0xd800) << 10) + low, next)
    }

    /// What stands behind an ampersand.
    fn entity(self, at: usize) -> Option<Read> {
        let first = self.read(at)?;
        if first.sign.ascii() == Some(b'#') {
            let radix = self.read(first.next)?;
            let (point, next) = match radix.sign.ascii() {
                Some(b'x' | b'X') => self.number(radix.next, 16, b';')?,
                Some(_) | None => self.number(first.next, 10, b';')?,
            };
            return point_of(point, next);
        }
        let (mut name, mut next) = (Vec::with_capacity(ENTITY_SIGNS_MAX), at);
        while name.len() < ENTITY_SIGNS_MAX {
            let letter = self.read(next)?;
            next = letter.next;
            match letter.sign.ascii()? {
                letter if letter.is_ascii_alphabetic() => name.push(letter),
                b';' => {
                    let found = ENTITIES.iter().find(|(known, _)| *known == name)?;
                    return Some(Read { sign: Sign::Point(found.1), next });
                }
                _ => return None,
            }
        }
        None
    }

    /// Digits up to a sign that ends them.
    fn number(self, mut at: usize, radix: u32, end: u8) -> Option<(u32, usize)> {
        let mut value: Option<u32> = None;
        for _ in 0..=ENTITY_SIGNS_MAX {
            let digit = self.read(at)?;
            at = digit.next;
            match digit.sign.ascii()? {
                sign if sign == end => return value.map(|value| (value, at)),
                sign => {
                    let digit = char::from(sign).to_digit(radix)?;
                    let before = value.unwrap_or(0);
                    value = Some(before.checked_mul(radix)?.checked_add(digit)?);
                }
            }
        }
        None
    }
}
