//! What stands in for a raw key: a keyed hash.
