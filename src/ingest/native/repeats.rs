//! Texts that come again and again: names of services and hosts, values of header fields, bodies of
//! refusals. A thread remembers those in which nothing looked secret, and does not look again.
//!
//! A text is remembered when it comes for the second time, so that ids and dates, which come once,
//! cost a hash and no more.

use foldhash::fast::RandomState;
use std::cell::RefCell;
use std::hash::BuildHasher as _;

/// Longest text that is remembered, in bytes.
const LONGEST: usize = 200;
/// How many are remembered.
const PLACES: usize = 2048;

thread_local! {
    static REPEATS: RefCell<Repeats> = RefCell::default();
}

#[derive(Debug, Default)]
struct Repeats {
    hasher: RandomState,
    places: Vec<Place>,
}

/// Which rules a text was looked through by, and how it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rules {
    /// Those for free text, a value of JSON.
    Text,
    /// Those for free text with line breaks, a value of JSON.
    Body,
    /// Those for an id, a value of JSON.
    Id,
    /// Those for a host, a plain text.
    Host,
    /// Those for a path, a plain text.
    Route,
}

/// The last text whose hash leads here, and what is stored for it once it has come twice.
#[derive(Debug, Default, Clone)]
struct Place {
    hash: u64,
    known: Option<(Rules, Box<str>, Box<str>)>,
}

/// A text that is not known.
#[derive(Debug, Clone, Copy)]
pub(super) struct New(Option<u64>);

impl Repeats {
    fn place(&mut self, hash: u64) -> Option<&mut Place> {
        if self.places.is_empty() {
            self.places.resize(PLACES, Place::default());
        }
        let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        self.places.get_mut(at)
    }
}

/// What is stored for `text`, as it was written, where nothing in it looked secret to these rules
/// before.
pub(super) fn known(rules: Rules, text: &str) -> Result<String, New> {
    if text.len() > LONGEST {
        return Err(New(None));
    }
    REPEATS.with_borrow_mut(|repeats| {
        let hash = repeats.hasher.hash_one((rules, text));
        let place = repeats.place(hash).filter(|place| place.hash == hash);
        match place.and_then(|place| place.known.as_ref()) {
            Some((by, known, stored)) if *by == rules && **known == *text => {
                Ok(stored.as_ref().to_owned())
            }
            _ => Err(New(Some(hash))),
        }
    })
}

impl New {
    /// Notes that nothing in `text` looks secret to these rules and that `stored` is stored for it.
    pub(super) fn note(self, rules: Rules, text: &str, stored: &str) {
        let Some(hash) = self.0 else { return };
        REPEATS.with_borrow_mut(|repeats| {
            let Some(place) = repeats.place(hash) else { return };
            if place.hash == hash {
                place.known = Some((rules, text.into(), stored.into()));
            } else {
                *place = Place { hash, known: None };
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a text is known as itself; notes it.
    fn is_known(rules: Rules, text: &str) -> bool {
        match known(rules, text) {
            Ok(stored) => stored == format!("<{text}>"),
            Err(new) => {
                new.note(rules, text, &format!("<{text}>"));
                false
            }
        }
    }

    #[test]
    fn a_text_is_known_once_it_was_noted_twice_and_as_itself_alone() {
        for n in 0..4 {
            assert_eq!(is_known(Rules::Text, "nginx/1.24.0"), n >= 2);
        }
        assert!(!is_known(Rules::Text, "nginx/1.24.1"));
        assert!(!is_known(Rules::Route, "nginx/1.24.0"));
        let long = "x".repeat(LONGEST + 1);
        assert!((0..4).all(|_| !is_known(Rules::Id, &long)));
    }

    #[test]
    fn whatever_else_comes_a_known_text_is_the_one_that_was_noted() {
        for n in 0..20_000 {
            let text = format!("text {}", n % 5_000);
            if let Ok(stored) = known(Rules::Id, &text) {
                assert!(n >= 10_000 && stored == format!("<{text}>"), "{text}: {stored}");
            } else {
                is_known(Rules::Id, &text);
            }
        }
    }
}
