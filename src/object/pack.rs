//! Whole objects packed in caches: the JSON of one kind is so alike that lz4 against a piece of it leaves a tenth.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use log::error;
use lz4_flex::block::{compress_into_with_dict, decompress_into_with_dict, get_maximum_output_size};

/// A dictionary is no longer than this. lz4_flex puts the whole of it into its table with each object, a third of a
/// nanosecond a byte, and the table has 4096 places, for each third byte: more would push out what is there.
const LONGEST_DICTIONARY: usize = 16 * 1024;
/// So much of one object is taken into it.
const LONGEST_SAMPLE: usize = 8 * 1024;
/// Longer objects take no part in its making: a dictionary does little for them, and they would outweigh the others.
const LONGEST_TRIED: usize = 32 * 1024;
/// So many objects give a dictionary what it lacks, …
const SAMPLES: u32 = 8;
/// … and so many try it.
const TRIES: u32 = 32;
/// With fewer objects than this in memory a dictionary is not worth its own memory.
const FEWEST: usize = 32;
/// The first dictionary is made and tried by objects in a row, later ones by one in four, … and so many, so that trials
/// cost a long list or a year of changes next to nothing, and a dictionary is not of neighbours alone.
const SELDOM: u32 = 64;
/// With so many old dictionaries in memory, which objects still need, no new one is made.
const MOST_OLD: usize = 7;
/// The room for packing that is kept for the next object.
const USUAL_ROOM: usize = 64 * 1024;

/// What one cache packs [`Object`](super::Object)s of one kind with, by [`Resource::pack`](super::Resource::pack).
///
/// Objects are packed against a dictionary, pieces of earlier objects of the kind; until there are enough objects to be
/// worth one, each against itself. From time to time a new dictionary is made of recent objects and tried; it takes the
/// place of the old one if it does clearly better. Old ones stay in memory while objects need them, at most 16 KiB each
/// and eight at a time. (So a piece of a secret may stay in memory longer than the secret.)
///
/// Without the feature `pack` it does nothing.
#[derive(Default)]
pub struct Packer {
    current: Arc<Dictionary>,
    old: Vec<Weak<Dictionary>>,
    trial: Trial,
    /// Reused: what an object is packed into before its length is known.
    room: Vec<u8>,
}

#[derive(Default)]
struct Dictionary(Box<[u8]>);

/// A dictionary in the making.
#[derive(Default)]
struct Trial {
    dictionary: Vec<u8>,
    /// Objects since it began, of which each `step`th counts.
    seen: u32,
    step: u32,
    /// What those that tried it take with the current dictionary, and with this one.
    before: usize,
    after: usize,
}

impl Packer {
    /// A packer that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn pack(&mut self, body: &mut Body) {
        let Form::Plain(text) = &body.form else { return };
        let Ok(length) = u32::try_from(text.len()) else { return };
        let packed = squeeze(text.as_bytes(), &self.current.0, &mut self.room).map(Box::<[u8]>::from);
        let dictionary = self.current.clone();
        self.learn(text.as_bytes(), packed.as_ref().map_or(text.len(), |packed| packed.len()));
        if let Some(bytes) = packed.filter(|packed| packed.len() <= text.len() / 8 * 7) {
            body.form = Form::Packed { bytes, length };
        }
        // Also where it gains nothing: that counts the object as one of those that are in memory.
        body.dictionary = Some(dictionary);
        if self.room.len() > USUAL_ROOM {
            self.room = Vec::new();
        }
    }

    /// Makes, tries and perhaps takes a new dictionary. `packed` is what the object takes with the current one.
    fn learn(&mut self, text: &[u8], packed: usize) {
        if text.len() > LONGEST_TRIED {
            return;
        }
        // Of what this packer has packed lives as much as holds the dictionary.
        let alive = Arc::strong_count(&self.current);
        let trial = &mut self.trial;
        if trial.seen == 0 {
            self.old.retain(|old| old.strong_count() > 0);
            if alive < FEWEST || self.old.len() >= MOST_OLD {
                return;
            }
            trial.step = trial.step.max(1);
        }
        trial.seen += 1;
        if trial.seen % trial.step != 0 {
            return;
        }
        let count = trial.seen / trial.step;
        let own = squeeze(text, &trial.dictionary, &mut self.room).map_or(text.len(), <[u8]>::len);
        if count <= SAMPLES {
            // What packs well already would only push out other pieces.
            if own > text.len() / 4 {
                let free = LONGEST_DICTIONARY - trial.dictionary.len();
                let piece = &text[..text.len().min(LONGEST_SAMPLE).min(free)];
                trial.dictionary.reserve_exact(piece.len());
                trial.dictionary.extend_from_slice(piece);
            }
            return;
        }
        trial.before += packed.min(text.len());
        trial.after += own.min(text.len());
        if count < SAMPLES + TRIES {
            return;
        }
        let Trial { dictionary, step, before, after, .. } = std::mem::take(trial);
        let saved = before.saturating_sub(after);
        let better =
            saved > before / 5 && (saved / TRIES as usize).saturating_mul(alive) > dictionary.len() * 2;
        if better {
            let new = Arc::new(Dictionary(dictionary.into()));
            let old = std::mem::replace(&mut self.current, new);
            if !old.0.is_empty() {
                self.old.push(Arc::downgrade(&old));
            }
        }
        self.trial.step = if better { (step / 4).max(4) } else { (step * 4).min(SELDOM) };
    }
}

/// Packs into `room`. `None` if it cannot.
fn squeeze<'r>(text: &[u8], dictionary: &[u8], room: &'r mut Vec<u8>) -> Option<&'r [u8]> {
    let needed = get_maximum_output_size(text.len());
    if room.len() < needed {
        *room = vec![0; needed];
    }
    let length = compress_into_with_dict(text, room, dictionary).ok()?;
    room.get(..length)
}

/// Nothing of what it has seen: that may be secrets.
impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer").field("dictionary", &self.current.0.len()).finish_non_exhaustive()
    }
}

/// The JSON text of an object, plain or packed.
#[derive(Clone)]
pub(super) struct Body {
    form: Form,
    /// What it is packed against, or was in vain.
    dictionary: Option<Arc<Dictionary>>,
}

#[derive(Clone)]
enum Form {
    Plain(Box<str>),
    Packed { bytes: Box<[u8]>, length: u32 },
}

impl Body {
    pub(super) fn new(text: String) -> Self {
        Self { form: Form::Plain(text.into()), dictionary: None }
    }

    pub(super) fn text(&self) -> Cow<'_, str> {
        match &self.form {
            Form::Plain(text) => Cow::Borrowed(text),
            Form::Packed { bytes, length } => {
                let dictionary = self.dictionary.as_deref().map_or(&[][..], |dictionary| &dictionary.0);
                Cow::Owned(unpack(bytes, *length as usize, dictionary))
            }
        }
    }
}

/// What was packed here unpacks. If that did not hold, the text would be empty, which is no JSON, so that every reader
/// notices.
fn unpack(packed: &[u8], length: usize, dictionary: &[u8]) -> String {
    let mut text = vec![0; length];
    let unpacked = decompress_into_with_dict(packed, &mut text, dictionary);
    let text = unpacked.is_ok_and(|unpacked| unpacked == length).then_some(text);
    text.and_then(|text| String::from_utf8(text).ok()).unwrap_or_else(|| {
        error!(target: "listwatch::object", "an object of {length} bytes cannot be unpacked: its text is lost");
        String::new()
    })
}

impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        if let (Form::Packed { bytes: a, length: m }, Form::Packed { bytes: b, length: n }) =
            (&self.form, &other.form)
        {
            let same = |a: &Arc<Dictionary>, b: &Arc<Dictionary>| Arc::ptr_eq(a, b);
            if m != n {
                return false;
            }
            if a == b
                && self.dictionary.as_ref().zip(other.dictionary.as_ref()).is_some_and(|(a, b)| same(a, b))
            {
                return true;
            }
        }
        self.text() == other.text()
    }
}

impl Eq for Body {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same numbers each time.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }

        fn word(&mut self) -> String {
            (0..3 + self.next() % 7).map(|_| char::from(b'a' + (self.next() % 26) as u8)).collect()
        }
    }

    /// The texts of objects of one shape, about 1.2 KB each.
    struct Shape {
        fields: String,
        numbers: Numbers,
    }

    impl Shape {
        fn new(seed: u64) -> Self {
            let mut numbers = Numbers(seed);
            let mut field = || {
                let (key, a, b) = (numbers.word(), numbers.word(), numbers.word());
                format!(r#","{key}":"{a} {b}""#)
            };
            Self { fields: (0..50).map(|_| field()).collect(), numbers }
        }

        fn text(&mut self) -> String {
            let (a, b, fields) = (self.numbers.next(), self.numbers.next(), &self.fields);
            format!(r#"{{"apiVersion":"v1","uid":"{a:08x}-{b:08x}"{fields}}}"#)
        }
    }

    fn packed(packer: &mut Packer, text: &str) -> Body {
        let mut body = Body::new(text.into());
        packer.pack(&mut body);
        assert_eq!(body.text(), text);
        body
    }

    fn size(body: &Body) -> usize {
        match &body.form {
            Form::Plain(text) => text.len(),
            Form::Packed { bytes, .. } => bytes.len(),
        }
    }

    fn is_plain(body: &Body) -> bool {
        matches!(body.form, Form::Plain(_))
    }

    fn dictionaries<'b>(bodies: impl IntoIterator<Item = &'b Body>) -> Vec<usize> {
        let mut all: Vec<_> = bodies.into_iter().filter_map(|body| body.dictionary.as_ref()).collect();
        all.sort_by_key(|dictionary| Arc::as_ptr(dictionary));
        all.dedup_by_key(|dictionary| Arc::as_ptr(dictionary));
        all.into_iter().map(|dictionary| dictionary.0.len()).collect()
    }

    #[test]
    fn alike_objects_take_a_tenth_dictionaries_included() {
        let (mut packer, mut shape) = (Packer::new(), Shape::new(1));
        let texts: Vec<_> = (0..2000).map(|_| shape.text()).collect();
        let bodies: Vec<_> = texts.iter().map(|text| packed(&mut packer, text)).collect();
        let plain: usize = texts.iter().map(String::len).sum();
        let kept = bodies.iter().map(size).sum::<usize>() + dictionaries(&bodies).iter().sum::<usize>();
        assert!(kept < plain / 10, "{kept} of {plain} bytes");
        assert!(packer.current.0.len() <= LONGEST_DICTIONARY);
        assert!(bodies.iter().zip(&texts).all(|(body, text)| body.text() == *text));
    }

    #[test]
    fn few_objects_get_no_dictionary_however_often_they_change() {
        let (mut packer, mut shape) = (Packer::new(), Shape::new(1));
        let mut bodies = Vec::new();
        for n in 0..5000 {
            let body = packed(&mut packer, &shape.text());
            if bodies.len() < FEWEST / 2 { bodies.push(body) } else { bodies[n % (FEWEST / 2)] = body }
        }
        assert_eq!((packer.current.0.len(), packer.trial.dictionary.capacity()), (0, 0));
    }

    #[test]
    fn what_cannot_be_packed_stays_plain() {
        let mut packer = Packer::new();
        for text in ["", "{}", r#"{"apiVersion":"v1","kind":"A","metadata":{"name":"x"}}"#] {
            assert!(is_plain(&packed(&mut packer, text)), "{text}");
        }
        let mut numbers = Numbers(7);
        let noise: String = (0..1 << 20).map(|_| char::from(b'!' + (numbers.next() % 90) as u8)).collect();
        assert!(is_plain(&packed(&mut packer, &noise)));
        assert!(packer.room.len() <= USUAL_ROOM, "the room for a large object is not kept");
    }

    #[test]
    fn tiny_objects_are_packed_once_there_are_many() {
        let (mut packer, mut numbers) = (Packer::new(), Numbers(3));
        let mut tiny = || {
            let (a, b) = (numbers.next(), numbers.next());
            format!(
                r#"{{"apiVersion":"v1","kind":"ServiceAccount","metadata":{{"name":"default-{a}","uid":"{b}"}}}}"#
            )
        };
        let bodies: Vec<_> = (0..500).map(|_| packed(&mut packer, &tiny())).collect();
        assert!(is_plain(&bodies[0]));
        assert!(bodies[400..].iter().all(|body| size(body) < body.text().len() / 2));
        assert!(packer.current.0.len() < 2000, "eight tiny objects make a small dictionary");
    }

    #[test]
    fn large_objects_are_packed_among_small_ones_and_do_not_keep_them_from_a_dictionary() {
        let (mut packer, mut shape) = (Packer::new(), Shape::new(1));
        let large = format!("[{}]", (0..1000).map(|_| shape.text()).collect::<Vec<_>>().join(","));
        assert!(large.len() > 1 << 20);
        let noise: String =
            (0..1 << 18).map(|_| char::from(b'!' + (shape.numbers.next() % 90) as u8)).collect();
        let mut bodies = Vec::new();
        for _ in 0..30 {
            bodies.extend((0..5).map(|_| packed(&mut packer, &shape.text())));
            bodies.push(packed(&mut packer, &large));
            assert!(size(&bodies[bodies.len() - 1]) < large.len() / 5);
            bodies.push(packed(&mut packer, &noise));
            assert!(packer.room.len() <= USUAL_ROOM, "the room for a large object is not kept");
        }
        assert!(packer.current.0.len() <= LONGEST_DICTIONARY);
        assert!(size(&packed(&mut packer, &shape.text())) < shape.text().len() / 5);
    }

    #[test]
    fn objects_that_are_not_alike_cost_no_more_than_each_by_itself() {
        let (mut packer, mut alone) = (Packer::new(), 0);
        let mut bodies = Vec::new();
        for n in 0..1000 {
            let text = Shape::new(n).text();
            alone += size(&packed(&mut Packer::new(), &text));
            bodies.push(packed(&mut packer, &text));
        }
        let together = bodies.iter().map(size).sum::<usize>() + dictionaries(&bodies).iter().sum::<usize>();
        assert!(together < alone / 100 * 101, "{together} bytes together, {alone} alone");
    }

    #[test]
    fn a_new_dictionary_comes_when_objects_change_their_shape() {
        let mut packer = Packer::new();
        let (mut cache, mut n) = (Vec::new(), 0);
        let mut change = |packer: &mut Packer, shape: &mut Shape| {
            let body = packed(packer, &shape.text());
            let size = size(&body);
            if cache.len() < 1000 {
                cache.push(body)
            } else {
                cache[n % 1000] = body
            }
            n += 1;
            size
        };
        let (mut old, mut new) = (Shape::new(1), Shape::new(2));
        let settled = (0..4000).map(|_| change(&mut packer, &mut old)).last().unwrap();
        let first = change(&mut packer, &mut new);
        assert!(first > settled * 5, "{first} and {settled} bytes");
        let then = (0..6000).map(|_| change(&mut packer, &mut new)).last().unwrap();
        assert!(then < settled * 3 / 2, "{then} bytes where {settled} were");
    }

    #[test]
    fn old_dictionaries_stay_few_and_go_with_their_objects() {
        let mut packer = Packer::new();
        let (mut cache, mut survivors, mut most) = (Vec::new(), Vec::new(), 0);
        for seed in 0..24 {
            let mut shape = Shape::new(seed);
            for n in 0..1500 {
                let body = packed(&mut packer, &shape.text());
                if n == 1499 {
                    survivors.push(body.clone());
                }
                if cache.len() < 100 { cache.push(body) } else { cache[n % 100] = body }
            }
            most = most.max(dictionaries(cache.iter().chain(&survivors)).len());
        }
        assert!((4..=MOST_OLD + 1).contains(&most), "{most} dictionaries");
        survivors.clear();
        let mut shape = Shape::new(20);
        for n in 0..6000 {
            cache[n % 100] = packed(&mut packer, &shape.text());
        }
        assert!(size(&cache[0]) < shape.text().len() / 5, "it is renewed again");
        assert_eq!(dictionaries(&cache).len(), 1);
    }

    #[test]
    fn equal_is_what_has_the_same_text_however_it_is_kept() {
        let (mut a, mut b, mut shape) = (Packer::new(), Packer::new(), Shape::new(1));
        let kept: Vec<_> = (0..200).map(|_| packed(&mut a, &shape.text())).collect();
        assert!(!a.current.0.is_empty());
        let (one, other) = (shape.text(), shape.text());
        let forms = |text: &str, a: &mut Packer, b: &mut Packer| {
            [Body::new(text.into()), packed(a, text), packed(a, text), packed(b, text)]
        };
        for x in &forms(&one, &mut a, &mut b) {
            assert!(forms(&one, &mut a, &mut b).iter().all(|y| x == y));
            assert!(forms(&other, &mut a, &mut b).iter().all(|y| x != y));
        }
        let mut again = kept[199].clone();
        b.pack(&mut again);
        assert_eq!(size(&again), size(&kept[199]), "what is packed stays as it is");
    }

    #[test]
    fn spoiled_bytes_are_no_text_and_no_panic() {
        let text = Shape::new(1).text();
        let mut room = Vec::new();
        let bytes = squeeze(text.as_bytes(), &text.as_bytes()[..500], &mut room).unwrap().to_vec();
        assert_eq!(unpack(&bytes, text.len(), &text.as_bytes()[..500]), text);
        assert_eq!(unpack(&bytes, text.len() - 1, &text.as_bytes()[..500]), "");
        assert_eq!(unpack(&bytes[..bytes.len() - 1], text.len(), &text.as_bytes()[..500]), "");
        for at in 0..bytes.len() {
            let mut spoiled = bytes.clone();
            spoiled[at] ^= 0x81;
            let _ = unpack(&spoiled, text.len(), b"");
        }
    }
}
