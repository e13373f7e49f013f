//! Runs of base64 and of hexadecimal in a text, read as the bytes that they stand for.
//!
//! Where a run begins is not known: a word before it may have letters of the same alphabet. So it
//! is read from each of the first four signs on, or two, and all but one of these give noise.

use super::spell::{self, LAYERS};

/// Bytes that were read from a text, and from where to where each of them stands there.
#[derive(Default)]
pub(super) struct Block {
    pub(super) bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
}

/// A sign of a run.
#[derive(Clone, Copy)]
struct Digit {
    sign: u8,
    from: usize,
    to: usize,
}

impl Block {
    pub(super) fn push(&mut self, byte: u8, place: (usize, usize)) {
        self.bytes.push(byte);
        self.places.push(place);
    }

    /// Where some of the bytes stand in the text.
    pub(super) fn source(&self, from: usize, to: usize) -> (usize, usize) {
        (self.places[from].0, self.places[to - 1].1)
    }
}

/// Hands over everything in a text that may be the encoded form of at least so many bytes.
pub(super) fn each(bytes: &[u8], shortest: usize, mut then: impl FnMut(Block)) {
    let is_escaped = bytes.iter().any(|byte| spell::is_special(*byte));
    let layers: &[u8] = if is_escaped { &[0, LAYERS] } else { &[0] };
    for layers in layers {
        each_run(bytes, *layers, |run| {
            if run.len() * 3 / 4 < shortest {
                return;
            }
            (0..4).for_each(|skip| then(base64(&run[skip..])));
            let pieces = run.split(|digit| !digit.sign.is_ascii_hexdigit());
            for piece in pieces.filter(|piece| piece.len() / 2 >= shortest) {
                (0..2).for_each(|skip| then(hex(&piece[skip..])));
            }
        });
    }
}

/// Runs go over the ends of lines: MIME and PEM break them.
fn each_run(bytes: &[u8], layers: u8, mut then: impl FnMut(&[Digit])) {
    let (mut run, mut at, mut is_folded) = (Vec::new(), 0, false);
    while let Some(read) = spell::read(bytes, at, layers) {
        match read.sign.ascii() {
            Some(sign) if value(sign).is_some() => {
                run.push(Digit { sign, from: at, to: read.next });
                is_folded = false;
            }
            Some(b'\r' | b'\n') => is_folded = true,
            Some(b' ' | b'\t') if is_folded => {}
            Some(_) | None => {
                then(&run);
                run.clear();
                is_folded = false;
            }
        }
        at = read.next;
    }
    then(&run);
}

/// What a sign of base64 stands for, in both alphabets.
fn value(sign: u8) -> Option<u8> {
    match sign {
        b'A'..=b'Z' => Some(sign - b'A'),
        b'a'..=b'z' => Some(sign - b'a' + 26),
        b'0'..=b'9' => Some(sign - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

fn base64(run: &[Digit]) -> Block {
    let mut block = Block::default();
    for group in run.chunks(4) {
        let bits = |digit: &Digit| value(digit.sign).unwrap_or_default();
        for pair in group.windows(2).enumerate() {
            let (number, [first, second]) = (pair.0, pair.1) else { continue };
            // Of the first sign the lower bits that no byte has yet, of the second the upper.
            let (left, right) = (2 + 2 * number, 4 - 2 * number);
            let byte = (bits(first) << left) | (bits(second) >> right);
            block.push(byte, (first.from, second.to));
        }
    }
    block
}

fn hex(run: &[Digit]) -> Block {
    let mut block = Block::default();
    let digit = |digit: &Digit| char::from(digit.sign).to_digit(16).unwrap_or_default();
    for pair in run.chunks_exact(2) {
        let byte = digit(&pair[0]) * 16 + digit(&pair[1]);
        block.push(byte.to_le_bytes()[0], (pair[0].from, pair[1].to));
    }
    block
}
