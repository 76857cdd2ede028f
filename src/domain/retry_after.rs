//! `Retry-After`: the strict reading of RFC 9110 and a lenient one with flags.
