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

/// Which rules a text was looked through by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Rules {
    /// Those for free text.
    Text,
    /// Those for a path.
    Route,
    /// Those for an id.
    Id,
}

/// The last text whose hash leads here; the text itself once it has come twice.
#[derive(Debug, Default, Clone)]
struct Place {
    hash: u64,
    text: Option<(Rules, Box<str>)>,
}

impl Repeats {
    fn place(&mut self, rules: Rules, text: &str) -> (u64, Option<&mut Place>) {
        if self.places.is_empty() {
            self.places.resize(PLACES, Place::default());
        }
        let hash = self.hasher.hash_one((rules, text));
        let at = usize::try_from(hash % PLACES as u64).unwrap_or_default();
        (hash, self.places.get_mut(at))
    }
}

/// Whether nothing in `text` looked secret to these rules before.
pub(super) fn is_known(rules: Rules, text: &str) -> bool {
    if text.len() > LONGEST {
        return false;
    }
    REPEATS.with_borrow_mut(|repeats| {
        let (hash, place) = repeats.place(rules, text);
        let known = place.filter(|place| place.hash == hash).and_then(|place| place.text.as_ref());
        known.is_some_and(|(by, known)| *by == rules && **known == *text)
    })
}

/// Notes that nothing in `text` looks secret to these rules.
pub(super) fn note(rules: Rules, text: &str) {
    if text.len() > LONGEST {
        return;
    }
    REPEATS.with_borrow_mut(|repeats| {
        let (hash, Some(place)) = repeats.place(rules, text) else { return };
        if place.hash == hash {
            place.text = Some((rules, text.into()));
        } else {
            *place = Place { hash, text: None };
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_known_once_it_was_noted_twice_and_as_itself_alone() {
        for n in 0..3 {
            assert_eq!(is_known(Rules::Text, "nginx/1.24.0"), n == 2);
            note(Rules::Text, "nginx/1.24.0");
        }
        assert!(!is_known(Rules::Text, "nginx/1.24.1"));
        assert!(!is_known(Rules::Route, "nginx/1.24.0"));
        let long = "x".repeat(LONGEST + 1);
        note(Rules::Id, &long);
        note(Rules::Id, &long);
        assert!(!is_known(Rules::Id, &long));
    }

    #[test]
    fn whatever_else_comes_a_known_text_is_the_one_that_was_noted() {
        for n in 0..20_000 {
            let text = format!("text {}", n % 5_000);
            if is_known(Rules::Id, &text) {
                assert!(n >= 10_000, "{text}");
            }
            note(Rules::Id, &text);
        }
    }
}
