//! What holds for any lines as quantities, times and keys of objects.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use listwatch::{MicroTime, ObjectKey, Quantity, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What parses prints a text that parses to the same, also as JSON, and has the exact value; the order of two is that
/// of their values.
pub(crate) fn values(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines: Vec<_> = text.split('\n').take(8).filter(|line| line.len() < 200).collect();
    for line in &lines {
        key(line);
        times(line);
        if let Some(quantity) = read::<Quantity>(line) {
            assert_eq!((quantity.as_str(), &*quantity.to_string()), (*line, *line));
            json(&quantity);
            let nanos = quantity.nano_value();
            if let Some(exact) = exact_nanos(line) {
                assert_eq!(nanos, exact, "{line}");
            }
            let value = i128::from(quantity.value());
            if value.abs() < i64::MAX.into() {
                let rounded = value * 1_000_000_000 - nanos;
                assert!(rounded.abs() < 1_000_000_000 && rounded * nanos >= 0, "{line} is not {value}");
            }
        }
    }
    let quantities: Vec<_> = lines.iter().filter_map(|line| line.parse::<Quantity>().ok()).collect();
    for (a, b) in quantities.iter().zip(quantities.iter().skip(1)) {
        assert_eq!(a.cmp(b), a.nano_value().cmp(&b.nano_value()), "{a} and {b}");
        assert_eq!((a == b, b.cmp(a)), (a.cmp(b).is_eq(), a.cmp(b).reverse()), "{a} and {b}");
    }
}

fn key(line: &str) {
    let Some(key) = read::<ObjectKey>(line) else { return };
    assert_eq!((key.as_str(), &*key.to_string()), (line, line));
    assert_eq!(ObjectKey::new(key.namespace(), key.name()), key);
    assert!(!key.name().is_empty() && !key.name().contains('/') && key.namespace() != Some(""), "{line:?}");
}

fn times(line: &str) {
    let (time, micro) = (read::<Time>(line), read::<MicroTime>(line));
    assert_eq!(time, micro.map(Time::from), "{line}");
    let (Some(time), Some(micro)) = (time, micro) else { return };
    assert_eq!(time.to_string().parse::<Time>().unwrap(), time, "{line}");
    assert_eq!(micro.to_string().parse::<MicroTime>().unwrap(), micro, "{line}");
    assert_eq!((time.to_string().len(), micro.to_string().len()), (20, 27), "{line}");
    json(&time);
    json(&micro);

    // At offset 0 the text is what was read; any other is so many minutes away from that.
    let end = line.rfind(['Z', 'z', '+', '-']).unwrap();
    let (local, offset) = (line[..19].to_uppercase(), &line[end..]);
    let minutes = match offset.len() {
        1 => 0,
        _ => {
            offset[..3].parse::<i64>().unwrap() * 60
                + format!("{}{}", &offset[..1], &offset[4..]).parse::<i64>().unwrap()
        }
    };
    if minutes == 0 {
        assert_eq!(time.to_string(), format!("{local}Z"));
    } else if let Ok(there) = format!("{local}Z").parse::<Time>() {
        assert_eq!(time.unix(), there.unix() - minutes * 60, "{line}");
        assert_eq!(time < there, minutes > 0, "{line}");
    }
}

fn read<T: FromStr<Err = listwatch::Error>>(line: &str) -> Option<T> {
    let error = match line.parse() {
        Ok(value) => return Some(value),
        Err(error) => error,
    };
    assert!(error.is_invalid_argument() && !error.to_string().contains(char::is_control), "{error}");
    None
}

fn json<T: Serialize + DeserializeOwned + PartialEq + Debug + Display>(value: &T) {
    let written = serde_json::to_string(value).unwrap();
    assert_eq!(written, format!("\"{value}\""));
    assert_eq!(&serde_json::from_str::<T>(&written).unwrap(), value);
}

/// The value of a quantity in 10⁻⁹, away from zero, by long multiplication of its digits. `None` where it is too big
/// or too small to be worth it.
fn exact_nanos(text: &str) -> Option<i128> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let number =
        &unsigned[..unsigned.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(unsigned.len())];
    let (binary, decimal) = match &unsigned[number.len()..] {
        "Ki" => (1, 0),
        "Mi" => (2, 0),
        "Gi" => (3, 0),
        "Ti" => (4, 0),
        "Pi" => (5, 0),
        "Ei" => (6, 0),
        "" => (0, 0),
        suffix if suffix.len() > 1 => (0, suffix[1..].parse::<i32>().ok().filter(|e| e.abs() < 100)?),
        suffix => (0, [-9, -6, -3, 3, 6, 9, 12, 15, 18]["numkMGTPE".find(suffix)?]),
    };
    let fraction = number.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    // From the last digit to the first.
    let mut digits: Vec<u32> =
        number.bytes().rev().filter(u8::is_ascii_digit).map(|b| u32::from(b - b'0')).collect();
    for _ in 0..binary {
        let mut carry = 0;
        for digit in digits.iter_mut() {
            (*digit, carry) = ((*digit * 1024 + carry) % 10, (*digit * 1024 + carry) / 10);
        }
        digits.extend(carry.to_string().bytes().rev().map(|b| u32::from(b - b'0')));
    }
    let shift = decimal + 9 - fraction;
    let dropped = digits.len().min(usize::try_from(-shift).unwrap_or(0));
    let rounded = digits.drain(..dropped).any(|digit| digit != 0);
    digits.splice(..0, std::iter::repeat_n(0, usize::try_from(shift).unwrap_or(0)));
    let whole =
        digits.iter().rev().try_fold(0_i128, |n, d| n.checked_mul(10)?.checked_add(i128::from(*d)))?;
    let size =
        whole.checked_add(i128::from(rounded)).filter(|n| *n < i128::from(i64::MAX) * 1_000_000_000)?;
    Some(if text.starts_with('-') { -size } else { size })
}
