//! Bytes to events: a file per input format. Knows neither the web nor the store.
//!
//! - [`response`]: one response as text (`curl -i`, `curl -v`, raw HTTP).
//! - [`har`]: a browser's or a proxy's HAR file.
//! - [`case`]: the NDJSON line of `retrylens classify --ndjson`.

pub mod case;
pub mod har;
pub mod response;
