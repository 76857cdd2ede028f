//! Bytes to events: a file per input format. Knows neither the web nor the store.
//!
//! - [`body`]: caps and inflates what arrives.
//! - [`native`]: the events of DESIGN 4, as JSON or NDJSON.
//! - [`otlp`]: traces of OpenTelemetry, as protobuf or JSON.
//! - [`response`]: one response as text (`curl -i`, `curl -v`, raw HTTP).
//! - [`har`]: a browser's or a proxy's HAR file.
//! - [`authority`]: user information, host and the rest of an address.
//! - [`case`]: the NDJSON line of `retrylens classify --ndjson`.

pub mod access_log;
mod authority;
pub mod body;
pub mod case;
pub mod har;
pub mod native;
pub mod otlp;
pub mod response;
