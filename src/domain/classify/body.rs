//! Reads scalar values out of a JSON body without building a tree. Bodies may be cut off, so it
//! gives what it understood and stops at the first thing that is not JSON.

/// A scalar in a JSON body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JsonField<'a> {
    /// The nearest key above the value; empty in an array at the top.
    pub(crate) key: &'a str,
    /// The value: a string without its quotes (escapes as sent), or a bare word such as `429`.
    pub(crate) value: &'a str,
    /// Whether it was a string.
    pub(crate) is_text: bool,
    /// How many objects and arrays are around it, from 1.
    pub(crate) depth: usize,
}

/// Every scalar in `text`, in order; none where it does not start as an object or array.
pub(crate) fn fields(text: &str) -> JsonFields<'_> {
    let starts = text.trim_start().starts_with(['{', '[']);
    JsonFields { text, at: if starts { 0 } else { text.len() }, keys: Vec::new() }
}

/// The iterator behind [`fields`].
#[derive(Debug, Clone)]
pub(crate) struct JsonFields<'a> {
    text: &'a str,
    at: usize,
    /// One entry for each open object or array: the key in force, and whether it is an object.
    keys: Vec<(&'a str, bool)>,
}

/// Deeper bodies are read no further.
const MAX_DEPTH: usize = 32;

impl<'a> JsonFields<'a> {
    fn string(&mut self) -> Option<&'a str> {
        let start = self.at + 1;
        let bytes = self.text.as_bytes();
        let mut end = start;
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'"' => {
                    self.at = end + 1;
                    return self.text.get(start..end);
                }
                b'\\' => end += 2,
                _ => end += 1,
            }
        }
        None
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }
}

impl<'a> Iterator for JsonFields<'a> {
    type Item = JsonField<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.skip_space();
            let byte = *self.text.as_bytes().get(self.at)?;
            match byte {
                b'{' | b'[' => {
                    if self.keys.len() >= MAX_DEPTH {
                        self.at = self.text.len();
                        return None;
                    }
                    let key = self.keys.last().map_or("", |(key, _)| key);
                    self.keys.push((key, byte == b'{'));
                    self.at += 1;
                }
                b'}' | b']' => {
                    self.keys.pop();
                    self.at += 1;
                    if self.keys.is_empty() {
                        self.at = self.text.len();
                        return None;
                    }
                }
                b',' | b':' => self.at += 1,
                b'"' => {
                    let Some(text) = self.string() else {
                        self.at = self.text.len();
                        return None;
                    };
                    self.skip_space();
                    let depth = self.keys.len();
                    let open = self.keys.last_mut()?;
                    if open.1 && self.text.as_bytes().get(self.at) == Some(&b':') {
                        open.0 = text;
                        self.at += 1;
                        continue;
                    }
                    return Some(JsonField { key: open.0, value: text, is_text: true, depth });
                }
                _ => {
                    let start = self.at;
                    let bytes = self.text.as_bytes();
                    while bytes.get(self.at).is_some_and(|b| {
                        b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.' | b'_')
                    }) {
                        self.at += 1;
                    }
                    if self.at == start {
                        self.at = self.text.len();
                        return None;
                    }
                    let depth = self.keys.len();
                    let (key, _) = self.keys.last()?;
                    let value = self.text.get(start..self.at)?;
                    return Some(JsonField { key, value, is_text: false, depth });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(text: &str) -> Vec<(&str, &str)> {
        fields(text).map(|f| (f.key, f.value)).collect()
    }

    #[test]
    fn scalars_come_with_the_nearest_key() {
        assert_eq!(
            pairs(r#"{"a": {"b":"c", "d":[1,"e\"f"]}, "g" : null, "h":true}"#),
            [("b", "c"), ("d", "1"), ("d", "e\\\"f"), ("g", "null"), ("h", "true")]
        );
        assert_eq!(pairs(r#"[{"errorCode":"X"}]"#), [("errorCode", "X")]);
    }

    #[test]
    fn a_key_of_an_inner_object_does_not_leak_into_the_outer_one() {
        assert_eq!(pairs(r#"{"a":{"b":1},"c":2}"#), [("b", "1"), ("c", "2")]);
    }

    #[test]
    fn a_cut_or_foreign_body_gives_what_was_understood() {
        assert_eq!(pairs(r#"{"a":"b","c":"d"#), [("a", "b")]);
        assert_eq!(pairs("<html>{\"a\":1}"), []);
        assert_eq!(pairs("{}"), []);
        assert_eq!(pairs("{\"a\":é}"), []);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_or_run_for_ever(text in r#"[{\[]?[{}\[\]",:\\a1é \n]{0,80}"#) {
            prop_assert!(fields(&text).count() <= text.len());
        }
    }
}
