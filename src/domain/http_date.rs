//! The three dates of HTTP (RFC 9110 section 5.6.7).
