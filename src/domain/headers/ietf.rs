//! `RateLimit` and its relatives, by the drafts of the IETF.

use super::entry::{Entry, Family};
use super::{FieldKind as Kind, FieldUnit as Unit};

const DRAFT: &str = "draft-ietf-httpapi-ratelimit-headers";

pub(super) const FAMILY: Family = Family {
    title: "IETF drafts",
    note: "Drafts 01 to 06 have separate fields, draft 07 one dictionary, drafts 08 and later lists \
           of named items. A malformed structured field is ignored as a whole, all of these are \
           ignored in a response that a cache replayed, and `retry-after` wins over a reset.",
    entries: &[
        Entry {
            name: "ratelimit",
            owner: "ietf",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "Draft 07: `limit`, `remaining` and `reset` in one dictionary. Drafts 08 and \
                      later: per named policy what is left (`r`) and the seconds to its reset (`t`).",
            source: DRAFT,
        },
        Entry {
            name: "ratelimit-policy",
            owner: "ietf",
            kind: Kind::Policy,
            unit: Unit::Requests,
            meaning: "Drafts 04 to 07: a quota with its window `w` in seconds. Drafts 08 and later: \
                      per named policy a quota `q`, its window `w` and its unit `qu`.",
            source: DRAFT,
        },
        Entry {
            name: "ratelimit-limit",
            owner: "ietf",
            kind: Kind::Limit,
            unit: Unit::Requests,
            meaning: "Size of the allowance; drafts 01 to 03 append policies (`100, 100;w=60`).",
            source: DRAFT,
        },
        Entry {
            name: "ratelimit-remaining",
            owner: "ietf",
            kind: Kind::Remaining,
            unit: Unit::Requests,
            meaning: "What is left of the allowance.",
            source: DRAFT,
        },
        Entry {
            name: "ratelimit-reset",
            owner: "ietf",
            kind: Kind::Reset,
            unit: Unit::Seconds,
            meaning: "Time to the renewal of the allowance.",
            source: DRAFT,
        },
    ],
};
