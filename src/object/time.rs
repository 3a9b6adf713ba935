use std::fmt;
use std::num::NonZeroI64;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::excerpt;
use crate::error::Error;

const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;
/// 0000-01-01T00:00:00Z and 9999-12-31T23:59:59Z: what RFC 3339 can write, in seconds since 1970.
const FIRST: i64 = -62_167_219_200;
const LAST: i64 = 253_402_300_799;

/// A point in time to the second, `metav1.Time` upstream: creation timestamps, transitions of conditions.
///
/// Eight bytes, also within an `Option`. Written as RFC 3339 in UTC and whole seconds, `2026-11-29T12:59:23Z`. Read
/// with any offset; a fraction of a second is dropped. Years 0 to 9999, as RFC 3339 has no others; what lies outside
/// becomes the first or the last second of these.
///
/// ```
/// # use listwatch::Time;
/// let time: Time = "2026-11-29T13:59:23.5+01:00".parse()?;
/// assert_eq!(time.to_string(), "2026-11-29T12:59:23Z");
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(Stored);

/// A point in time to the microsecond, `metav1.MicroTime` upstream: the times of a Lease and of an Event.
///
/// Eight bytes, also within an `Option`. Written as RFC 3339 in UTC with exactly six digits of the second's fraction,
/// `2026-11-29T10:00:00.000001Z`: the API server refuses any other number of digits. Read with any offset and with
/// any fraction or none; digits past the sixth are dropped. The years are those of [`Time`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime(Stored);

/// A number since 1970 that is kept apart from zero, so that an `Option` of it needs no more room.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Stored(NonZeroI64);

impl Stored {
    /// Above every |number| that is stored: 9999 years in microseconds are less than 2⁵⁹.
    const BIAS: i64 = 1 << 60;

    fn new(number: i64) -> Self {
        Self(NonZeroI64::new(number + Self::BIAS).unwrap_or(NonZeroI64::MIN))
    }

    fn get(self) -> i64 {
        self.0.get() - Self::BIAS
    }
}

impl Time {
    /// The time `seconds` after 1970-01-01T00:00:00Z, without leap seconds.
    #[must_use]
    pub fn from_unix(seconds: i64) -> Self {
        Self(Stored::new(seconds.clamp(FIRST, LAST)))
    }

    /// Seconds since 1970-01-01T00:00:00Z, without leap seconds; negative before.
    #[must_use]
    pub fn unix(self) -> i64 {
        self.0.get()
    }
}

impl MicroTime {
    /// The time `micros` microseconds after 1970-01-01T00:00:00Z, without leap seconds.
    #[must_use]
    pub fn from_unix_micros(micros: i64) -> Self {
        Self(Stored::new(micros.clamp(FIRST * MICROS, LAST * MICROS + MICROS - 1)))
    }

    /// Microseconds since 1970-01-01T00:00:00Z, without leap seconds; negative before.
    #[must_use]
    pub fn unix_micros(self) -> i64 {
        self.0.get()
    }
}

/// The start of 1970.
impl Default for Time {
    fn default() -> Self {
        Self::from_unix(0)
    }
}

/// The start of 1970.
impl Default for MicroTime {
    fn default() -> Self {
        Self::from_unix_micros(0)
    }
}

impl From<SystemTime> for Time {
    fn from(time: SystemTime) -> Self {
        MicroTime::from(time).into()
    }
}

impl From<SystemTime> for MicroTime {
    fn from(time: SystemTime) -> Self {
        Self::from_unix_micros(match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            // Towards the past, as the dropped part of a microsecond always goes.
            Err(e) => {
                i64::try_from(e.duration().as_nanos().div_ceil(1000)).map_or(i64::MIN, |micros| -micros)
            }
        })
    }
}

impl From<Time> for SystemTime {
    fn from(time: Time) -> Self {
        MicroTime::from(time).into()
    }
}

/// 1970 where the system's clock does not reach that far back.
impl From<MicroTime> for SystemTime {
    fn from(time: MicroTime) -> Self {
        let distance = Duration::from_micros(time.unix_micros().unsigned_abs());
        let reached = if time.unix_micros() < 0 {
            UNIX_EPOCH.checked_sub(distance)
        } else {
            UNIX_EPOCH.checked_add(distance)
        };
        reached.unwrap_or(UNIX_EPOCH)
    }
}

impl From<Time> for MicroTime {
    fn from(time: Time) -> Self {
        Self::from_unix_micros(time.unix() * MICROS)
    }
}

/// The fraction is dropped.
impl From<MicroTime> for Time {
    fn from(time: MicroTime) -> Self {
        Self::from_unix(time.unix_micros().div_euclid(MICROS))
    }
}

impl FromStr for Time {
    type Err = Error;

    /// # Errors
    /// The text is not a time as RFC 3339 writes it, or lies outside of the years 0 to 9999.
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).map(|(seconds, _)| Self::from_unix(seconds)).ok_or_else(|| bad(text))
    }
}

impl FromStr for MicroTime {
    type Err = Error;

    /// # Errors
    /// As those of [`Time`].
    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text)
            .map(|(seconds, micros)| Self::from_unix_micros(seconds * MICROS + micros))
            .ok_or_else(|| bad(text))
    }
}

fn bad(text: &str) -> Error {
    Error::invalid(format!("{} is not a time as RFC 3339 writes it", excerpt(text)))
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Written::seconds(self.unix()).as_str())
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Written::micros(self.unix_micros()).as_str())
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Written::seconds(self.unix()).as_str())
    }
}

impl Serialize for MicroTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Written::micros(self.unix_micros()).as_str())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (seconds, _) = deserializer.deserialize_str(TimeVisitor)?;
        Ok(Self::from_unix(seconds))
    }
}

impl<'de> Deserialize<'de> for MicroTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (seconds, micros) = deserializer.deserialize_str(TimeVisitor)?;
        Ok(Self::from_unix_micros(seconds * MICROS + micros))
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = (i64, i64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time as RFC 3339 writes it")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(i64, i64), E> {
        parse(text).ok_or_else(|| E::custom(bad(text)))
    }
}

/// A time as text, made without an allocation.
struct Written {
    text: [u8; 27],
    length: usize,
}

impl Written {
    fn seconds(seconds: i64) -> Self {
        let mut written = Self { text: *b"0000-00-00T00:00:00.000000Z", length: 20 };
        let (year, month, day) = civil(seconds.div_euclid(DAY));
        let second = seconds.rem_euclid(DAY);
        written.put(0..4, year);
        written.put(5..7, month);
        written.put(8..10, day);
        written.put(11..13, second / 3600);
        written.put(14..16, second / 60 % 60);
        written.put(17..19, second % 60);
        written.text[19] = b'Z';
        written
    }

    fn micros(micros: i64) -> Self {
        let mut written = Self::seconds(micros.div_euclid(MICROS));
        written.text[19] = b'.';
        written.put(20..26, micros.rem_euclid(MICROS));
        written.length = 27;
        written
    }

    fn put(&mut self, place: std::ops::Range<usize>, mut number: i64) {
        for byte in self.text[place].iter_mut().rev() {
            *byte = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }
}

/// Seconds since 1970, and microseconds of the fraction.
///
/// As Go's `time.Parse(time.RFC3339, …)`, and stricter where that is looser than RFC 3339 (an hour of one digit, a
/// comma before the fraction); `t` and `z` may be small, as RFC 3339 allows. A 60th second is refused, as Go does.
fn parse(text: &str) -> Option<(i64, i64)> {
    let (head, mut rest) = text.as_bytes().split_at_checked(19)?;
    for (at, separators) in [(4, "-"), (7, "-"), (10, "Tt"), (13, ":"), (16, ":")] {
        separators.bytes().find(|b| *b == head[at])?;
    }
    let (year, month, day) = (number(&head[0..4])?, number(&head[5..7])?, number(&head[8..10])?);
    let (hour, minute, second) = (number(&head[11..13])?, number(&head[14..16])?, number(&head[17..19])?);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }

    let mut micros = 0;
    if let [b'.', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let kept = digits.min(6);
        micros = number(&fraction[..kept])? * 10_i64.pow(6 - kept as u32);
        rest = &fraction[digits..];
    }

    let offset = match *rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            (hours * 3600 + minutes * 60) * if sign == b'-' { -1 } else { 1 }
        }
        _ => return None,
    };
    let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    (FIRST..=LAST).contains(&seconds).then_some((seconds, micros))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// From 0000-03-01 to 1970-01-01: years are counted from March, so that the leap day is a year's last.
const MARCH_0: i64 = 719_468;
/// Days in 400 years, after which the calendar repeats.
const CYCLE: i64 = 146_097;

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - MARCH_0
}

/// The date that many days after 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + MARCH_0;
    let (cycle, day) = (days.div_euclid(CYCLE), days.rem_euclid(CYCLE));
    // Takes out the leap days of each 4 years, puts back those of each 100 years.
    let year = (day - day / 1_460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    let month = (day * 5 + 2) / 153;
    let day = day - (month * 153 + 2) / 5 + 1;
    let year = year + cycle * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unix(text: &str) -> i64 {
        text.parse::<Time>().unwrap().unix()
    }

    #[test]
    fn takes_eight_bytes_even_when_optional() {
        assert_eq!((size_of::<Option<Time>>(), size_of::<Option<MicroTime>>()), (8, 8));
    }

    #[test]
    fn every_day_of_ten_thousand_years_is_the_next_one() {
        let (mut year, mut month, mut day) = (0, 1, 1);
        let mut number = FIRST / DAY;
        while year < 10_000 {
            assert_eq!(civil(number), (year, month, day));
            assert_eq!(days(year, month, day), number);
            number += 1;
            day += 1;
            let leap = (year % 4 == 0) ^ (year % 100 == 0) ^ (year % 400 == 0);
            let length =
                [31, 28 + i64::from(leap), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!(number * DAY, LAST + 1);
    }

    #[test]
    fn writes_utc_and_whole_seconds() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59Z"),
            (1_795_957_163, "2026-11-29T12:59:23Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (FIRST, "0000-01-01T00:00:00Z"),
            // Go's zero time, which it writes as null.
            (-62_135_596_800, "0001-01-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(Time::from_unix(seconds).to_string(), text);
            assert_eq!(unix(text), seconds);
            let json = format!("{text:?}");
            assert_eq!(serde_json::to_string(&Time::from_unix(seconds)).unwrap(), json);
            assert_eq!(serde_json::from_str::<Time>(&json).unwrap().unix(), seconds);
        }
        assert_eq!(Time::from_unix(i64::MAX).unix(), LAST);
        assert_eq!(Time::from_unix(i64::MIN).unix(), FIRST);
    }

    /// The server's words on others: `cannot parse "Z" as ".000000"`.
    #[test]
    fn micro_time_is_written_with_six_digits() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (1, "1970-01-01T00:00:00.000001Z"),
            (999_999, "1970-01-01T00:00:00.999999Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_795_946_400_000_001, "2026-11-29T10:00:00.000001Z"),
        ] {
            let time = MicroTime::from_unix_micros(micros);
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse::<MicroTime>().unwrap(), time);
            let json = format!("{text:?}");
            assert_eq!(serde_json::to_string(&time).unwrap(), json);
            assert_eq!(serde_json::from_str::<MicroTime>(&json).unwrap(), time);
        }
    }

    #[test]
    fn micro_time_is_read_with_any_fraction() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01T00:00:00.1Z", 100_000),
            ("1970-01-01T00:00:00.12Z", 120_000),
            ("1970-01-01T00:00:00.1234567899999Z", 123_456),
            ("1969-12-31T23:59:59.9999999Z", -1),
        ] {
            assert_eq!(text.parse::<MicroTime>().unwrap().unix_micros(), micros, "{text}");
        }
    }

    #[test]
    fn reads_any_offset_and_fraction() {
        assert_eq!(unix("2026-11-29T13:59:23+01:00"), 1_795_957_163);
        assert_eq!(unix("2026-11-29T07:29:23.999-05:30"), 1_795_957_163);
        assert_eq!(unix("2026-11-29T12:59:23-00:00"), 1_795_957_163);
        assert_eq!(unix("2026-11-29t12:59:23z"), 1_795_957_163);
        assert_eq!(unix("1969-12-31T23:59:59.9Z"), -1);
    }

    #[test]
    fn refuses_what_is_no_time_and_shows_it() {
        for text in [
            "",
            "now",
            "2026-11-29",
            "2026-11-29T12:59:23",
            "2026-11-29 12:59:23Z",
            "2026-11-29T12:59:23.Z",
            "2026-11-29T12:59:23,5Z",
            "2026-11-29T12:59:60Z",
            "2026-11-29T24:00:00Z",
            "2026-11-29T1:59:23Z",
            "2026-13-29T12:59:23Z",
            "2026-00-29T12:59:23Z",
            "2026-11-31T12:59:23Z",
            "2026-11-00T12:59:23Z",
            "2026-02-29T12:59:23Z",
            "1900-02-29T12:59:23Z",
            "2026-11-29T12:59:23+24:00",
            "2026-11-29T12:59:23+01:60",
            "2026-11-29T12:59:23+0100",
            "2026-11-29T12:59:23Zz",
            "0000-01-01T00:00:00+00:01",
            "9999-12-31T23:59:59-00:01",
            "+026-11-29T12:59:23Z",
            "2026-11-29T12:59:2é",
            "202é-11-29T12:59:23Z",
        ] {
            let error = text.parse::<Time>().unwrap_err();
            assert!(
                error.is_invalid_argument() && error.to_string().contains(&format!("{text:?}")),
                "{error}"
            );
            assert!(text.parse::<MicroTime>().is_err(), "{text}");
        }
        assert!("2000-02-29T12:59:23Z".parse::<Time>().is_ok());
        let error = serde_json::from_str::<Time>("\"soon\"").unwrap_err();
        assert!(error.to_string().contains("\"soon\" is not a time"), "{error}");
    }

    #[test]
    fn null_is_no_time() {
        assert_eq!(serde_json::from_str::<Option<Time>>("null").unwrap(), None);
        assert_eq!(serde_json::from_str::<Option<MicroTime>>("null").unwrap(), None);
        for json in ["null", "0", "1.5", "{}", "true"] {
            assert!(serde_json::from_str::<Time>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn goes_to_the_system_clock_and_back() {
        for micros in [0, 1, -1, 1_795_957_163_123_456, -62_000_000_000_000_001] {
            let time = MicroTime::from_unix_micros(micros);
            assert_eq!(MicroTime::from(SystemTime::from(time)), time);
            assert_eq!(Time::from(SystemTime::from(time)), time.into());
        }
        let just_before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(MicroTime::from(just_before).unix_micros(), -1);
        assert_eq!(Time::from(just_before).unix(), -1);
    }

    #[test]
    fn order_is_that_of_time() {
        assert!(Time::from_unix(-5) < Time::from_unix(0) && Time::from_unix(0) < Time::from_unix(7));
    }
}
