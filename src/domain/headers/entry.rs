//! The shape of a dictionary entry, and how a field name matches one.

use super::{FieldKind, FieldUnit};

/// One meaning of one header field, as one owner documents it. The same name may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Field name in lower case. `<period>` stands for `second`, `minute`, `hour`, `day`, `month`
    /// or `year`; any other word in angle brackets stands for a name of the sender's choice.
    pub name: &'static str,
    /// Who gives the field this meaning: a provider as [`super::provider_of`] spells it, a product
    /// or a library.
    pub owner: &'static str,
    /// What it states.
    pub kind: FieldKind,
    /// What its number counts; [`FieldUnit::Unknown`] where the owner leaves it open.
    pub unit: FieldUnit,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// The public page or source that says so.
    pub source: &'static str,
}

/// Entries that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Family {
    /// Heading.
    pub title: &'static str,
    /// What a reader should know about them.
    pub note: &'static str,
    /// The entries.
    pub entries: &'static [Entry],
}

/// What the angle brackets of an entry's name stood for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Captured<'a> {
    /// `<period>`.
    pub(super) period: Option<&'a str>,
    /// Any other name.
    pub(super) name: Option<&'a str>,
}

/// The calendar and clock windows that a name may carry, with their length in milliseconds where
/// it is fixed.
pub(super) const PERIODS: [(&str, Option<i64>); 6] = [
    ("second", Some(1000)),
    ("minute", Some(60_000)),
    ("hour", Some(3_600_000)),
    ("day", Some(86_400_000)),
    ("month", None),
    ("year", None),
];

/// Matches a field name against an entry's name, from the left; a bracket takes as little as makes
/// the rest match.
pub(super) fn matches<'a>(pattern: &str, name: &'a str) -> Option<Captured<'a>> {
    let Some((literal, rest)) = pattern.split_once('<') else {
        return (pattern == name).then(Captured::default);
    };
    let (word, after) = rest.split_once('>')?;
    let name = name.strip_prefix(literal)?;
    if word == "period" {
        return PERIODS.iter().find_map(|(period, _)| {
            let tail = name.strip_prefix(period)?;
            let inner = matches(after, tail)?;
            Some(Captured { period: Some(name.strip_suffix(tail)?), ..inner })
        });
    }
    // Names are short tokens; the cap keeps hostile ones from costing anything.
    name.char_indices().skip(1).map(|(at, _)| at).chain([name.len()]).take(64).find_map(|end| {
        let (bracket, tail) = name.split_at_checked(end)?;
        let inner = matches(after, tail)?;
        (!bracket.is_empty()).then_some(Captured { name: Some(bracket), ..inner })
    })
}

/// How much of an entry's name is literal: of two that match, the one with more wins.
pub(super) fn literal_length(pattern: &str) -> usize {
    let mut inside = false;
    pattern
        .chars()
        .filter(|c| {
            match c {
                '<' => inside = true,
                '>' => {
                    inside = false;
                    return false;
                }
                _ => {}
            }
            !inside
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn captured(
        period: Option<&'static str>,
        name: Option<&'static str>,
    ) -> Captured<'static> {
        Captured { period, name }
    }

    #[test]
    fn brackets_take_a_period_or_a_name() {
        for (pattern, name, expected) in [
            ("retry-after-ms", "retry-after-ms", Some(captured(None, None))),
            ("retry-after-ms", "retry-after-m", None),
            ("retry-after-<throttler>", "retry-after-login", Some(captured(None, Some("login")))),
            ("retry-after-<throttler>", "retry-after-", None),
            (
                "x-ratelimit-limit-<period>",
                "x-ratelimit-limit-hour",
                Some(captured(Some("hour"), None)),
            ),
            ("x-ratelimit-limit-<period>", "x-ratelimit-limit-hours", None),
            (
                "x-ratelimit-limit-<quota>-<period>",
                "x-ratelimit-limit-sms-out-day",
                Some(captured(Some("day"), Some("sms-out"))),
            ),
            (
                "anthropic-ratelimit-<bucket>-reset",
                "anthropic-ratelimit-input-tokens-reset",
                Some(captured(None, Some("input-tokens"))),
            ),
            (
                "x-ai-ratelimit-limit-<period>-<provider>",
                "x-ai-ratelimit-limit-minute-example",
                Some(captured(Some("minute"), Some("example"))),
            ),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert_eq!(literal_length("a-<b>-c"), 4);
    }

    proptest! {
        #[test]
        fn any_name_is_survived(name in any::<String>(), long in 0_usize..20_000) {
            let _ = matches("x-<a>-y-<period>", &name);
            let _ = matches("x-<a>-y-<period>", &format!("x-{}", "é-".repeat(long)));
        }
    }
}
