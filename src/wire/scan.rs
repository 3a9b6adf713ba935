use memchr::memchr2;

/// Finds the end of a JSON value that comes in pieces, without looking at any byte twice. It only counts brackets and
/// quotes: whether what they enclose is JSON is for the parser to say.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// How many bytes of the value were looked at.
    at: usize,
    depth: usize,
    in_string: bool,
}

impl Scan {
    /// The length of the value that `bytes` begin with, if it ends in them; all bytes of the call before must be there
    /// again. A number or a word ends only where something else follows.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while self.at < bytes.len() {
            if self.in_string {
                let Some(found) = memchr2(b'"', b'\\', &bytes[self.at..]) else {
                    self.at = bytes.len();
                    return None;
                };
                self.at += found;
                if bytes[self.at] == b'\\' {
                    if self.at + 2 > bytes.len() {
                        return None;
                    }
                    self.at += 2;
                    continue;
                }
                self.in_string = false;
                self.at += 1;
                if self.depth == 0 {
                    return Some(self.at);
                }
                continue;
            }
            match bytes[self.at] {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth == 0 => return Some(self.at),
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(self.at + 1);
                    }
                }
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => return Some(self.at),
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_the_same_in_one_piece_and_byte_by_byte() {
        for (json, length) in [
            (r#"{"a":[{"}":"\"]"}],"b":{}},{"#, Some(26)),
            (r#""a\\\"b" "#, Some(8)),
            ("12.5e3,", Some(6)),
            ("null]", Some(4)),
            ("12", None),
            (r#"{"a":"\"#, None),
            (",", Some(0)),
        ] {
            assert_eq!(Scan::default().end(json.as_bytes()), length, "{json}");
            let mut scan = Scan::default();
            let found = (1..=json.len()).find_map(|end| scan.end(&json.as_bytes()[..end]));
            assert_eq!(found, length, "{json} byte by byte");
        }
    }
}
