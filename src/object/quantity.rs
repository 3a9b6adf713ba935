use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::excerpt;
use crate::error::Error;

const NANO: i128 = 1_000_000_000;

/// An amount of a resource: `500m` of a CPU, `1.5Gi` of memory. `resource.Quantity` upstream.
///
/// It keeps the text that was given and is written with it. Compared, hashed and counted by its value: `1Gi` equals
/// `1024Mi`. As upstream, a value finer than 10⁻⁹ is rounded away from zero to that, and with a binary suffix its size
/// is at most 2⁶³−1. Sizes above 1.7·10²⁹ count as that.
///
/// ```
/// # use listwatch::Quantity;
/// let memory: Quantity = "1.5Gi".parse()?;
/// assert_eq!(memory.value(), 1_610_612_736);
/// assert_eq!(memory, "1536Mi".parse()?);
/// assert_eq!(memory.to_string(), "1.5Gi");
/// let cpu: Quantity = "500m".parse()?;
/// assert_eq!((cpu.value(), cpu.milli_value(), cpu.to_f64()), (1, 500, 0.5));
/// # Ok::<(), listwatch::Error>(())
/// ```
#[derive(Clone)]
pub struct Quantity(Box<str>);

impl Quantity {
    /// The text as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// In whole units (bytes, CPUs, pods), rounded away from zero, as upstream's `Value`; at most what an `i64` holds.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.scaled(NANO)
    }

    /// In thousandths of a unit, rounded away from zero, as upstream's `MilliValue`; at most what an `i64` holds.
    #[must_use]
    pub fn milli_value(&self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// In 10⁻⁹ of a unit: the exact value.
    #[must_use]
    pub fn nano_value(&self) -> i128 {
        nanos(&self.0).unwrap_or_default()
    }

    /// The value in units, as exact as an `f64` is.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.nano_value() as f64 / NANO as f64
    }

    fn scaled(&self, nanos_per_unit: i128) -> i64 {
        let nanos = self.nano_value();
        let away_from_zero = i128::from(nanos % nanos_per_unit != 0) * nanos.signum();
        let value = nanos / nanos_per_unit + away_from_zero;
        value.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

/// Zero.
impl Default for Quantity {
    fn default() -> Self {
        Self("0".into())
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self(number.to_string().into())
    }
}

impl FromStr for Quantity {
    type Err = Error;

    /// # Errors
    /// The text is no quantity: a number (`[+-]digits[.digits]`) and a suffix out of `Ki Mi Gi Ti Pi Ei`,
    /// `n u m k M G T P E` or `e` and an exponent.
    fn from_str(text: &str) -> Result<Self, Error> {
        match nanos(text) {
            Some(_) => Ok(Self(text.into())),
            None => Err(Error::invalid(format!(
                "{} is not a quantity: a number and a suffix such as m, k, M, Ki, Mi or e3",
                excerpt(text)
            ))),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.nano_value() == other.nano_value()
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano_value().cmp(&other.nano_value())
    }
}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nano_value().hash(state);
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Takes text and, as upstream, bare numbers, which custom resources may hold; null is zero.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;

        impl Visitor<'_> for QuantityVisitor {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_unit<E>(self) -> Result<Quantity, E> {
                Ok(Quantity::default())
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                text.trim().parse().map_err(E::custom)
            }

            fn visit_i64<E>(self, number: i64) -> Result<Quantity, E> {
                Ok(number.into())
            }

            fn visit_u64<E>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string().into()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// The value of a quantity in 10⁻⁹, or `None` if the text is none.
fn nanos(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return None;
    }
    let (binary, exponent) = scale(suffix)?;
    // The digits 0.d₁d₂d₃… times 10^point, times 2^binary.
    let leading_zeros = whole.bytes().chain(fraction.bytes()).take_while(|b| *b == b'0').count();
    let digits = whole.bytes().chain(fraction.bytes()).map(|b| i128::from(b - b'0')).skip(leading_zeros);
    let length = |digits: usize| i64::try_from(digits).unwrap_or(i64::MAX);
    let point = exponent.saturating_add(length(whole.len())).saturating_sub(length(leading_zeros));
    let digits: Vec<i128> = digits.collect();
    let size = match digits.iter().any(|d| *d != 0) {
        true => size(&digits, point, NANO << binary),
        false => 0,
    };
    let size = if binary > 0 { size.min(i128::from(i64::MAX) * NANO) } else { size };
    Some(if negative { -size } else { size })
}

/// Powers of two and of ten that a suffix stands for.
fn scale(suffix: &str) -> Option<(u32, i64)> {
    Some(match suffix {
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "" => (0, 0),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        exponent => (0, exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// 0.d₁d₂d₃… · 10^point · unit, rounded up; at most `i128::MAX`. The first digit is not zero, `unit` is under 2⁹⁰.
fn size(digits: &[i128], point: i64, unit: i128) -> i128 {
    /// More digits before the point than any `i128` has, more zeros after it than any unit.
    const FAR: i64 = 40;
    if point > FAR {
        return i128::MAX;
    }
    if point < -FAR {
        return 1;
    }
    let split = usize::try_from(point).unwrap_or(0);
    let (before, after) = digits.split_at(split.min(digits.len()));
    let mut whole = before.iter().chain(std::iter::repeat(&0)).take(split);
    let whole = whole.try_fold(0_i128, |n, digit| n.checked_mul(10)?.checked_add(*digit));
    let Some(whole) = whole.and_then(|n| n.checked_mul(unit)) else { return i128::MAX };

    // From the last digit on: dropped remainders never come back, they only tell that the result is not exact.
    let zeros = usize::try_from(-point).unwrap_or(0);
    let (mut part, mut exact) = (0_i128, true);
    for digit in after.iter().rev().chain(std::iter::repeat_n(&0, zeros)) {
        let sum = digit * unit + part;
        part = sum / 10;
        exact &= sum % 10 == 0;
    }
    whole.saturating_add(part + i128::from(!exact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    /// Value and milli value are what apimachinery 0.36 answers.
    #[test]
    fn has_upstreams_value() {
        for (text, value, milli) in [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("+1", 1, 1000),
            ("1.", 1, 1000),
            (".5", 1, 500),
            ("-.5", -1, -500),
            ("100m", 1, 100),
            ("1500m", 2, 1500),
            ("-1500m", -2, -1500),
            ("1u", 1, 1),
            ("1n", 1, 1),
            ("0.9n", 1, 1),
            ("1e3", 1000, 1_000_000),
            ("1E3", 1000, 1_000_000),
            ("1e+3", 1000, 1_000_000),
            ("12E-1", 2, 1200),
            ("1E", 1_000_000_000_000_000_000, i64::MAX),
            ("2k", 2000, 2_000_000),
            ("3M", 3_000_000, 3_000_000_000),
            ("1Ki", 1024, 1_024_000),
            ("1.5Gi", 1_610_612_736, 1_610_612_736_000),
            ("-1.5Ki", -1536, -1_536_000),
            ("0.1Ki", 103, 102_400),
            ("1Ti", 1_099_511_627_776, 1_099_511_627_776_000),
            ("8Ei", i64::MAX, i64::MAX),
            ("900000000000000000000000000Ei", i64::MAX, i64::MAX),
            ("00000000000000000000000000000000000000000000000000000000000001", 1, 1000),
            ("1.00000000000000000000000000000000000000000000000000000000000", 1, 1000),
        ] {
            assert_eq!((q(text).value(), q(text).milli_value()), (value, milli), "{text}");
        }
    }

    #[test]
    fn is_exact_to_nano_and_never_rounds_to_nothing() {
        for (text, nanos) in [
            ("0.000000001", 1),
            ("0.0000000001", 1),
            ("-0.0000000001", -1),
            ("1.0000000000000000000000000000000000000000000001", 1_000_000_001),
            ("1e-1000000000000", 1),
            ("0.01e-9223372036854775808", 1),
            ("1000e9223372036854775807", i128::MAX),
            ("0e1000000000000", 0),
            ("0.0Ki", 0),
            ("0.00000000000000000000001Ei", 11_530),
            ("1000E", 1_000_000_000_000_000_000_000_000_000_000),
            ("1e1000000000000", i128::MAX),
            ("-1e100", -i128::MAX),
        ] {
            assert_eq!(q(text).nano_value(), nanos, "{text}");
        }
        assert_eq!(q("0.1").to_f64(), 0.1);
        assert_eq!(q("1.5Gi").to_f64(), 1_610_612_736.0);
    }

    #[test]
    fn compares_by_value() {
        assert_eq!(q("1Gi"), q("1024Mi"));
        assert_eq!(q("1"), q("1000m"));
        assert_ne!(q("1G"), q("1Gi"));
        assert!(q("-1") < q("0") && q("999m") < q("1") && q("2") < q("10"));
        let set = std::collections::HashSet::from([q("1"), q("1000m"), q("1e0")]);
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn refuses_what_is_none_and_shows_it() {
        for text in [
            "",
            " ",
            "-",
            ".",
            "Ki",
            "m",
            "1 ",
            " 1",
            "1 Ki",
            "1ki",
            "1K",
            "1mi",
            "1e",
            "1e1.5",
            "1ee5",
            "1e+",
            "1Kii",
            "1m5",
            "1.2.3",
            "--1",
            "+-1",
            "0x10",
            "1_000",
            "1,5",
            "NaN",
            "inf",
            "١",
            "1é",
            "1e99999999999999999999",
        ] {
            let error = text.parse::<Quantity>().unwrap_err();
            assert!(
                error.is_invalid_argument() && error.to_string().contains(&format!("{text:?}")),
                "{error}"
            );
        }
        let error = "9".repeat(1000).parse::<Quantity>().map(|_| ());
        assert!(error.is_ok());
        let error = format!("{}x", "9".repeat(1_000_000)).parse::<Quantity>().unwrap_err();
        assert!(error.to_string().len() < 300, "a message is short");
    }

    #[test]
    fn reads_text_and_numbers_and_keeps_what_was_written() {
        for (json, written) in [
            ("\"1.50Gi\"", "\"1.50Gi\""),
            ("\" 5 \"", "\"5\""),
            ("5", "\"5\""),
            ("-5", "\"-5\""),
            ("18446744073709551615", "\"18446744073709551615\""),
            ("0.5", "\"0.5\""),
            ("1e3", "\"1000\""),
            ("null", "\"0\""),
        ] {
            let quantity: Quantity = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_string(&quantity).unwrap(), written, "{json}");
        }
        for json in ["\"\"", "true", "[]", "{}", "\"a\""] {
            assert!(serde_json::from_str::<Quantity>(json).is_err(), "{json}");
        }
    }

    /// Texts made by the grammar, of digits that an `f64` holds exactly enough.
    #[test]
    fn every_text_of_the_grammar_has_its_value() {
        let suffixes: [(&str, f64); 20] = [
            ("", 1.0),
            ("n", 1e-9),
            ("u", 1e-6),
            ("m", 1e-3),
            ("k", 1e3),
            ("M", 1e6),
            ("G", 1e9),
            ("T", 1e12),
            ("P", 1e15),
            ("E", 1e18),
            ("Ki", 1024.0),
            ("Mi", 1_048_576.0),
            ("Gi", 1_073_741_824.0),
            ("Ti", 1_099_511_627_776.0),
            ("Pi", 1_125_899_906_842_624.0),
            ("e0", 1.0),
            ("e-7", 1e-7),
            ("E5", 1e5),
            ("e+11", 1e11),
            ("E-2", 1e-2),
        ];
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..20_000 {
            let sign = ["", "+", "-"][random(3) as usize];
            let number = match random(4) {
                0 => format!("{}", random(100_000)),
                1 => format!("{}.", random(1000)),
                2 => format!(".{}", random(100_000)),
                _ => format!("{}.{:03}", random(1000), random(1000)),
            };
            let (suffix, scale) = suffixes[random(20) as usize];
            let text = format!("{sign}{number}{suffix}");
            let quantity = q(&text);
            assert_eq!(quantity.to_string(), text);
            let want = number.parse::<f64>().unwrap() * scale * if sign == "-" { -1.0 } else { 1.0 };
            let want =
                if suffix.ends_with('i') { want.clamp(-(i64::MAX as f64), i64::MAX as f64) } else { want };
            let got = quantity.to_f64();
            assert!((got - want).abs() <= 1e-9 + want.abs() * 1e-12, "{text}: {got} is not {want}");
        }
    }
}
