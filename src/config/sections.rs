//! The settings by section, checked and typed. What each does is written in `default.toml`.

use super::ConfigError;
use super::layers::Settings;
use super::secret::{Secret, TokenHash};
use crate::domain::spelling::spelled_enum;
use crate::domain::time::{DAY_MS, Millis};
use crate::ingest::native::RawKeys;
use crate::metrics::Caps;
use crate::store::Keep;
use std::path::PathBuf;
use std::time::Duration;

/// `[server]`
#[derive(Debug, Clone)]
pub struct Server {
    /// Host and port to listen on.
    pub listen: String,
    /// Host and port to take OTLP over gRPC on, where that is wanted.
    pub otlp_grpc_listen: Option<String>,
    /// The address that people open.
    pub public_url: Option<PublicUrl>,
    /// Further host names that requests may name, in lower case.
    pub allowed_hosts: Vec<String>,
    /// Longest time for a request's head.
    pub header_timeout: Duration,
    /// Longest time for a request's body.
    pub body_timeout: Duration,
    /// Longest time for an answer.
    pub request_timeout: Duration,
    /// Longest time for a stop.
    pub stop_timeout: Duration,
    /// Connections served at the same time.
    pub max_connections: usize,
}

/// The scheme, host and port under which people reach the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// Whether it starts with `https`.
    pub is_https: bool,
    /// Host, with the port where one is named; in lower case.
    pub authority: String,
}

impl PublicUrl {
    /// Reads `http://HOST[:PORT]` or `https://HOST[:PORT]`.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']' | '_');
        (!authority.is_empty() && authority.chars().all(plain))
            .then(|| Self { is_https, authority: authority.to_ascii_lowercase() })
    }
}

impl std::fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http{}://{}", if self.is_https { "s" } else { "" }, self.authority)
    }
}

impl Server {
    /// The address that links begin with, without a slash at its end: `public_url`, else the
    /// address that is listened on.
    pub fn base(&self) -> String {
        let public = self.public_url.as_ref().map(ToString::to_string);
        public.unwrap_or_else(|| format!("http://{}", self.listen))
    }

    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let address = "an address and a port, such as 127.0.0.1:4290";
        let listen = settings.text("listen").ok_or_else(|| settings.bad("listen", address))?;
        let has_port = |listen: &str| {
            let parts = listen.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            parts.is_some_and(|(_, port)| port.parse::<u16>().is_ok())
        };
        if !has_port(listen) {
            return Err(settings.bad("listen", address));
        }
        let otlp_grpc_listen = settings.text("otlp_grpc_listen").map(str::to_owned);
        if otlp_grpc_listen.as_deref().is_some_and(|listen| !has_port(listen)) {
            return Err(settings.bad("otlp_grpc_listen", address));
        }
        let public_url = match settings.text("public_url") {
            None => None,
            Some(text) => Some(PublicUrl::parse(text).ok_or_else(|| {
                settings.bad("public_url", "http:// or https://, a host and no path")
            })?),
        };
        let hosts = settings.texts("allowed_hosts");
        let allowed_hosts =
            hosts.iter().map(|host| host.trim().trim_end_matches('.').to_ascii_lowercase());
        let duration = |name: &str| -> Result<Duration, ConfigError> {
            Ok(Duration::from_millis(settings.number(name, 10, 3_600_000)?))
        };
        Ok(Self {
            listen: listen.to_owned(),
            otlp_grpc_listen,
            public_url,
            allowed_hosts: allowed_hosts.collect(),
            header_timeout: duration("header_timeout_ms")?,
            body_timeout: duration("body_timeout_ms")?,
            request_timeout: duration("request_timeout_ms")?,
            stop_timeout: duration("stop_timeout_ms")?,
            max_connections: size(settings, "max_connections", 1, 1_000_000)?,
        })
    }
}

/// `[store]`
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Address of the database, with its password.
    pub database_url: Secret,
    /// How long things are kept.
    pub keep: Keep,
}

impl StoreSettings {
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let known = ["sqlite:", "postgres://", "postgresql://"];
        let url = settings.text("database_url").unwrap_or_default();
        if !known.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(settings.bad("database_url", "sqlite://FILE or postgres://…"));
        }
        let days = |name: &str, least: u64| -> Result<Millis, ConfigError> {
            let days = settings.number(name, least, 36_500)?;
            Ok(Millis(i64::try_from(days).unwrap_or_default() * DAY_MS))
        };
        let events = days("retention_days", 1)?;
        let sums = days("sums_retention_days", events.0.unsigned_abs() / DAY_MS.unsigned_abs())?;
        let max_bytes = match settings.text("max_bytes") {
            None => None,
            Some(text) => Some(bytes(text).filter(|n| *n >= LEAST_BUDGET).ok_or_else(|| {
                settings.bad("max_bytes", "a size from 64MB on, such as 20GB or 500MiB, or nothing")
            })?),
        };
        Ok(Self { database_url: Secret::new(url), keep: Keep { events, sums, max_bytes } })
    }

    /// The file that holds the data; `None` for PostgreSQL and for a database in memory.
    pub fn file(&self) -> Option<PathBuf> {
        let rest = self.database_url.expose().strip_prefix("sqlite:")?;
        let path = rest.strip_prefix("//").unwrap_or(rest).split('?').next()?;
        (!path.is_empty() && path != ":memory:").then(|| PathBuf::from(path))
    }

    /// The address without its password.
    pub fn shown(&self) -> String {
        super::secret::without_password(self.database_url.expose())
    }
}

/// The least that `max_bytes` may be: below it an empty store and its log would not fit.
const LEAST_BUDGET: u64 = 64_000_000;

/// Reads a size in bytes: a whole number and a unit, `B` where there is none.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// `[ingest]`
#[derive(Debug, Clone)]
pub struct Ingest {
    /// Largest body as it arrives, in bytes.
    pub max_body_bytes: usize,
    /// Largest body after decompression, in bytes.
    pub max_inflated_bytes: usize,
    /// Most events in a request.
    pub max_items: usize,
    /// Bytes of bodies held in memory over all requests.
    pub max_buffered_bytes: usize,
    /// Most events that wait for their commit.
    pub queue_events: u32,
    /// Events committed together, where that many wait.
    pub commit_events: usize,
    /// How long a batch may have to wait for its commit before more from one sender is refused.
    pub max_wait: Duration,
    /// Series that sums are kept of.
    pub max_series: usize,
    /// What happens to a raw key.
    pub raw_keys: RawKeys,
    /// Key for hashing; the store's own where not set.
    pub hash_key: Option<Secret>,
}

impl Ingest {
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        const GIB: usize = 1 << 30;
        let hash_key = settings.text("hash_key");
        if hash_key.is_some_and(|key| key.chars().count() < 16) {
            return Err(settings.bad("hash_key", "16 characters or more, or nothing"));
        }
        let raw_keys = settings.text("raw_keys").and_then(|word| word.parse().ok());
        let max_body_bytes = size(settings, "max_body_bytes", 1024, GIB)?;
        let max_buffered_bytes = size(settings, "max_buffered_bytes", 2048, GIB.saturating_mul(4))?;
        if max_buffered_bytes < 2 * max_body_bytes {
            return Err(settings.bad("max_buffered_bytes", "at least twice max_body_bytes"));
        }
        Ok(Self {
            max_body_bytes,
            max_inflated_bytes: size(settings, "max_inflated_bytes", 1024, GIB)?,
            max_items: size(settings, "max_items", 1, 10_000_000)?,
            max_buffered_bytes,
            queue_events: u32::try_from(settings.number("queue_events", 1, 10_000_000)?)
                .unwrap_or(u32::MAX),
            commit_events: size(settings, "commit_events", 1, 1_000_000)?,
            max_wait: Duration::from_millis(settings.number("max_wait_ms", 1, 60_000)?),
            max_series: size(settings, "max_series", 100, 10_000_000)?,
            raw_keys: raw_keys.ok_or_else(|| settings.bad("raw_keys", "hash or refuse"))?,
            hash_key: hash_key.map(Secret::new),
        })
    }
}

/// `[metrics]`
#[derive(Debug, Clone, Copy)]
pub struct MetricsSettings {
    /// How many values labels may have.
    pub caps: Caps,
}

impl MetricsSettings {
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        Ok(Self {
            caps: Caps {
                services: size(settings, "metrics_services", 1, 10_000)?,
                upstreams: size(settings, "metrics_upstreams", 1, 10_000)?,
                pairs: size(settings, "metrics_pairs", 1, 10_000)?,
            },
        })
    }
}

/// `[access]`
#[derive(Debug, Clone)]
pub struct Access {
    /// Hashes of the tokens that may send.
    pub ingest_tokens: Vec<TokenHash>,
    /// Hashes of the tokens that may read.
    pub read_tokens: Vec<TokenHash>,
    /// How long a login lasts.
    pub session: Duration,
}

impl Access {
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let tokens = |name: &str| -> Result<Vec<TokenHash>, ConfigError> {
            let parse = |text: &&str| {
                TokenHash::from_setting(text).map_err(|problem| settings.bad(name, problem))
            };
            settings.texts(name).iter().map(parse).collect()
        };
        let hours = settings.number("session_hours", 1, 24 * 365)?;
        Ok(Self {
            ingest_tokens: tokens("ingest_tokens")?,
            read_tokens: tokens("read_tokens")?,
            session: Duration::from_secs(hours * 3600),
        })
    }
}

spelled_enum! {
    /// How log lines are written.
    pub enum LogFormat {
        /// For people.
        Text => "text",
        /// An object a line.
        Json => "json",
    }
}

/// `[log]`
#[derive(Debug, Clone)]
pub struct Log {
    /// How lines are written.
    pub format: LogFormat,
    /// Which lines are written.
    pub filter: String,
}

impl Log {
    pub(super) fn read(settings: &Settings) -> Result<Self, ConfigError> {
        let format = settings.text("log_format").and_then(|word| word.parse().ok());
        let filter = settings.text("log_filter").unwrap_or("info");
        if tracing_subscriber::EnvFilter::try_new(filter).is_err() {
            return Err(settings.bad("log_filter", "a level or directives such as info,sqlx=warn"));
        }
        Ok(Self {
            format: format.ok_or_else(|| settings.bad("log_format", "text or json"))?,
            filter: filter.to_owned(),
        })
    }
}

fn size(s: &Settings, name: &str, least: usize, most: usize) -> Result<usize, ConfigError> {
    let number = s.number(name, least as u64, most as u64)?;
    usize::try_from(number).map_err(|_| s.bad(name, "a smaller number"))
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read_with_their_unit() {
        for (text, expected) in [
            ("20GB", Some(20_000_000_000)),
            ("500 MiB", Some(500 << 20)),
            ("1tb", Some(1_000_000_000_000)),
            ("70000000", Some(70_000_000)),
            ("70000000B", Some(70_000_000)),
            ("GB", None),
            ("1.5GB", None),
            ("-1GB", None),
            ("20 GX", None),
            ("99999999999TB", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
