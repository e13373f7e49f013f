//! Time as a value. Nothing here reads a clock: whoever asks brings the moment.
//!
//! Two clocks, because they fail differently. The *steady* clock counts suspend, never steps, and
//! starts anew with each boot: leases, deadlines and settle windows run on it. The *wall* clock
//! survives a reboot but may step: horizons, retention and what people read run on it.

use serde::{Deserialize, Serialize};

use crate::limits;

/// Milliseconds since 1970 on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wall(pub i64);

impl Wall {
    /// The wall time `ms` later.
    pub fn plus(self, ms: u64) -> Wall {
        Wall(self.0.saturating_add_unsigned(ms))
    }
}

/// A point on the steady clock of one boot of one machine (or of one database server).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Steady {
    /// Which boot: points of two boots cannot be compared.
    pub boot: u64,
    /// Milliseconds since that boot.
    pub ms: i64,
}

impl Steady {
    /// The point `ms` later.
    pub fn plus(self, ms: u64) -> Steady {
        Steady { boot: self.boot, ms: self.ms.saturating_add_unsigned(ms) }
    }

    /// The earlier of two points of one boot.
    pub fn earlier(self, other: Steady) -> Steady {
        assert_eq!(self.boot, other.boot, "points of two boots were compared");
        if other.ms < self.ms { other } else { self }
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Wall,
    /// The steady clock.
    pub steady: Steady,
    /// The wall clock is behind a time this store has already seen, so ages cannot be trusted.
    pub wall_is_behind: bool,
}

impl Moment {
    /// Whether `point` has been reached. A point of another boot has: its machine restarted since.
    pub fn reached(&self, point: Steady) -> bool {
        point.boot != self.steady.boot || self.steady.ms >= point.ms
    }

    /// Milliseconds until `point`, zero when it has been reached.
    pub fn until(&self, point: Steady) -> u64 {
        if self.reached(point) { 0 } else { point.ms.abs_diff(self.steady.ms) }
    }

    /// Milliseconds from `point` until now. After a reboot only the time since boot is certain.
    pub fn since(&self, point: Steady) -> u64 {
        let from = if point.boot == self.steady.boot { point.ms } else { 0 };
        u64::try_from(self.steady.ms.saturating_sub(from)).unwrap_or(0)
    }

    /// Where a window of `ms` that began at `point` ends. One that began before the last boot is
    /// counted from that boot: how long the machine was off is not known.
    pub fn window_end(&self, point: Steady, ms: u64) -> Steady {
        let from = if point.boot == self.steady.boot {
            point
        } else {
            Steady { boot: self.steady.boot, ms: 0 }
        };
        from.plus(ms)
    }
}

/// Reads `500ms`, `1s`, `15m`, `24h` or `7d`.
pub fn parse_duration_ms(text: &str) -> Result<u64, DurationInvalid> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(DurationInvalid),
    };
    let number: u64 = number.parse().map_err(|_| DurationInvalid)?;
    let ms = number.checked_mul(scale).ok_or(DurationInvalid)?;
    if ms > limits::DURATION_MS_MAX { Err(DurationInvalid) } else { Ok(ms) }
}

/// Writes a duration the way [`parse_duration_ms`] reads it, in the largest unit that is exact.
pub fn format_duration_ms(ms: u64) -> String {
    for (unit, scale) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms >= scale && ms.is_multiple_of(scale) {
            return format!("{}{unit}", ms / scale);
        }
    }
    format!("{ms}ms")
}

/// The text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationInvalid;

impl std::fmt::Display for DurationInvalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration is a whole number and a unit: 500ms, 1s, 15m, 24h, 7d")
    }
}

impl std::error::Error for DurationInvalid {}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u64, ms: i64) -> Moment {
        Moment { wall: Wall(0), steady: Steady { boot, ms }, wall_is_behind: false }
    }

    #[test]
    fn a_point_of_another_boot_has_been_reached() {
        assert!(!at(1, 9).reached(Steady { boot: 1, ms: 10 }));
        assert!(at(1, 10).reached(Steady { boot: 1, ms: 10 }));
        assert!(at(2, 0).reached(Steady { boot: 1, ms: 10 }));
    }

    #[test]
    fn a_window_begun_before_the_boot_runs_from_the_boot() {
        let begun = Steady { boot: 1, ms: 5_000 };
        assert_eq!(at(1, 6_000).window_end(begun, 100), Steady { boot: 1, ms: 5_100 });
        assert_eq!(at(2, 50).window_end(begun, 100), Steady { boot: 2, ms: 100 });
        assert_eq!(at(2, 50).since(begun), 50);
    }

    #[test]
    fn durations_read_back_what_they_print() {
        for (text, ms) in
            [("500ms", 500), ("1s", 1_000), ("15m", 900_000), ("24h", 86_400_000), ("0s", 0)]
        {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
            assert_eq!(parse_duration_ms(&format_duration_ms(ms)), Ok(ms), "{text}");
        }
        for text in ["", "5", "s", "-1s", "1.5s", "1 s", "99999999999999999999d", "1w", "1S"] {
            assert_eq!(parse_duration_ms(text), Err(DurationInvalid), "{text}");
        }
    }
}
