//! The zone of local times.

use crate::domain::time::UnixMillis;
use jiff::tz::TimeZone;

/// A zone of the IANA database or a fixed offset from UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl Default for Zone {
    /// UTC.
    fn default() -> Self {
        Self { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl Zone {
    /// What [`Zone::parse`] takes, in words.
    pub const EXPECTED: &'static str =
        "a zone of the IANA database (Europe/Berlin) or an offset (+02:00)";

    /// Reads `Europe/Berlin`, `UTC` or `+02:00`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let zone = jiff::fmt::temporal::DateTimeParser::new().parse_time_zone(text).ok()?;
        Some(Self { name: text.to_owned(), zone })
    }

    /// Its name as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The moment at which clocks of this zone show what those of UTC show at `at`. Of an hour that
    /// clocks show twice it is the first one; one that they skip is read by the offset before.
    pub(super) fn local(&self, at: UnixMillis) -> UnixMillis {
        let moment = || {
            let shown = TimeZone::UTC.to_datetime(jiff::Timestamp::from_millisecond(at.0).ok()?);
            self.zone.to_timestamp(shown).ok()
        };
        moment().map_or(at, |moment| UnixMillis(moment.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_become_moments_by_the_offset_of_their_day() {
        let at = |text: &str| UnixMillis::parse_rfc3339(text).unwrap();
        for (zone, shown, moment) in [
            ("UTC", "2026-07-01T12:00:00.250Z", "2026-07-01T12:00:00.250Z"),
            ("Europe/Berlin", "2026-07-01T12:00:00Z", "2026-07-01T10:00:00Z"),
            ("europe/berlin", "2026-12-01T12:00:00Z", "2026-12-01T11:00:00Z"),
            ("-03:30", "2026-12-01T12:00:00Z", "2026-12-01T15:30:00Z"),
            ("+0200", "2026-12-01T12:00:00Z", "2026-12-01T10:00:00Z"),
            // Shown twice, and skipped.
            ("Europe/Berlin", "2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z"),
            ("Europe/Berlin", "2026-03-29T02:30:00Z", "2026-03-29T01:30:00Z"),
        ] {
            assert_eq!(Zone::parse(zone).unwrap().local(at(shown)), at(moment), "{zone} {shown}");
        }
        for wrong in ["", "Berlin", "2 hours", "+99:00", "Europe/"] {
            assert_eq!(Zone::parse(wrong), None, "{wrong}");
        }
    }
}
