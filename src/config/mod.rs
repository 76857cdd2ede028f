//! Settings: flags over environment over a TOML file over the commented defaults in
//! `default.toml`, which is built in and *is* the defaults.
//!
//! [`layers`](Sources) finds the value in force for each name; [`Config`] holds them checked and
//! typed, a struct per section. Secrets never print themselves; see [`secret`].

mod alerts;
mod layers;
pub mod notify;
pub mod secret;
mod sections;

pub use layers::{DEFAULTS, ENV_PREFIX, Origin, Sources};
pub use sections::{
    Access, Ingest, Log, LogFormat, MetricsSettings, PublicUrl, Server, StoreSettings,
};

use crate::domain::alerts::AlertSettings;
use layers::Settings;
use notify::Notify;

/// Why settings can't be used. Texts never hold a setting's value, which may be secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The operator's file can't be read.
    #[error("cannot read the settings file {path}")]
    ReadFile {
        /// The file as it was named.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The operator's file isn't TOML.
    #[error("{path}, line {line}: {problem}")]
    ParseFile {
        /// The file as it was named.
        path: String,
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A name that is no setting.
    #[error("{name} ({origin}) is not a setting; {hint}")]
    UnknownSetting {
        /// The name as given.
        name: String,
        /// Where it was given.
        origin: Origin,
        /// What would be right.
        hint: String,
    },
    /// A value of the wrong type, or out of range.
    #[error("{name} ({origin}): expected {expected}")]
    BadValue {
        /// The setting.
        name: String,
        /// Where its value was given.
        origin: Origin,
        /// What would be right.
        expected: String,
    },
}

impl ConfigError {
    fn file(path: &str, line: usize, problem: &str) -> Self {
        Self::ParseFile { path: path.to_owned(), line, problem: problem.to_owned() }
    }
}

/// All settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where and how requests are taken.
    pub server: Server,
    /// Where the data is.
    pub store: StoreSettings,
    /// What is accepted from senders.
    pub ingest: Ingest,
    /// What `/metrics` may hold.
    pub metrics: MetricsSettings,
    /// Who may send and who may read.
    pub access: Access,
    /// The numbers in alert rules.
    pub alerts: AlertSettings,
    /// Who is told of alerts, and how it is tried again.
    pub notify: Notify,
    /// The program's own log.
    pub log: Log,
    /// What the operator should know about the settings as given.
    pub warnings: Vec<String>,
    effective: Vec<Effective>,
}

/// One setting as it is in force, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// Section in the file.
    pub section: String,
    /// Name.
    pub name: String,
    /// Value as TOML, secrets hidden.
    pub value: String,
    /// Where it came from.
    pub origin: Origin,
}

impl Config {
    /// Reads all sources and checks every value.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let (settings, mut warnings) = Settings::gather(sources)?;
        let notify = Notify::read(&settings, &sources.environment)?;
        // What a receiver's secret is read from names no setting.
        warnings.retain(|text| !notify.reads(text.split(' ').next().unwrap_or_default()));
        Ok(Self {
            server: Server::read(&settings)?,
            store: StoreSettings::read(&settings)?,
            ingest: Ingest::read(&settings)?,
            metrics: MetricsSettings::read(&settings)?,
            access: Access::read(&settings)?,
            alerts: alerts::read(&settings)?,
            notify,
            log: Log::read(&settings)?,
            warnings,
            effective: effective(&settings),
        })
    }

    /// The settings in force by section and name, with secrets hidden.
    pub fn effective(&self) -> &[Effective] {
        &self.effective
    }
}

fn effective(settings: &Settings) -> Vec<Effective> {
    let mut all: Vec<Effective> = settings
        .0
        .iter()
        .map(|(name, setting)| Effective {
            section: setting.section.clone(),
            name: name.clone(),
            value: shown(name, &setting.value),
            origin: setting.origin,
        })
        .collect();
    all.sort_by(|a, b| (&a.section, &a.name).cmp(&(&b.section, &b.name)));
    all
}

/// A value as it may be shown: counts instead of tokens, no password, no key.
fn shown(name: &str, value: &toml::Value) -> String {
    match (name, value) {
        ("ingest_tokens" | "read_tokens", toml::Value::Array(items)) => match items.len() {
            0 => "[]".to_owned(),
            n => format!("[{n} hidden]"),
        },
        ("hash_key", toml::Value::String(key)) => {
            if key.trim().is_empty() { "\"\"" } else { "(hidden)" }.to_owned()
        }
        ("database_url", toml::Value::String(url)) => {
            toml::Value::String(secret::without_password(url)).to_string()
        }
        (notify::RECEIVERS, toml::Value::Array(items)) => notify::shown(items),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect()
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_built_in_file_is_a_complete_configuration() {
        let config = Config::load(&Sources::default()).unwrap();
        assert_eq!(config.server.listen, "127.0.0.1:4290");
        assert_eq!(config.store.database_url.expose(), "sqlite://retrylens.db");
        assert!(config.access.ingest_tokens.is_empty() && config.access.read_tokens.is_empty());
        assert!(config.effective().iter().all(|s| s.origin == Origin::Default));
    }

    #[test]
    fn flags_win_over_environment_over_file_over_defaults() {
        let own = file(
            "[server]\nlisten = \"127.0.0.1:1\"\nstop_timeout_ms = 1000\n[log]\nlog_filter = \"debug\"\n",
        );
        let mut sources = Sources { file: Some(own.path().to_owned()), ..Sources::default() };
        let listen = |sources: &Sources| Config::load(sources).unwrap().server.listen;
        assert_eq!(listen(&sources), "127.0.0.1:1");
        sources.environment = env(&[("RETRYLENS_LISTEN", "127.0.0.1:2"), ("PATH", "/bin")]);
        assert_eq!(listen(&sources), "127.0.0.1:2");
        sources.flags = env(&[("listen", "127.0.0.1:3")]);
        assert_eq!(listen(&sources), "127.0.0.1:3");
        let config = Config::load(&sources).unwrap();
        assert_eq!(config.server.stop_timeout.as_millis(), 1000);
        assert_eq!(config.log.filter, "debug");
        let origin_of = |name: &str| {
            config.effective().iter().find(|setting| setting.name == name).unwrap().origin
        };
        assert_eq!(origin_of("listen"), Origin::Flag);
        assert_eq!(origin_of("log_filter"), Origin::File);
        assert_eq!(origin_of("log_format"), Origin::Default);
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_never_with_its_value() {
        let cases = [
            ("[server]\nlisten = 4290\n", "listen (file): expected a text"),
            ("[server]\nlisten = \"nowhere\"\n", "listen (file): expected"),
            ("[server]\nlitsen = \"x\"\n", "litsen (file) is not a setting; the settings are: "),
            ("[log]\nlisten = \"127.0.0.1:1\"\n", "listen belongs below [server]"),
            ("listen = \"127.0.0.1:1\"\n", "listen belongs below [server]"),
            ("public_url = \"https://lens.example.com\"\n", "public_url belongs below [server]"),
            ("lisen = \"127.0.0.1:1\"\n", "settings stand below a section"),
            ("[server]\nmax_connections = 0\n", "max_connections (file): expected a whole number"),
            ("[ingest]\nraw_keys = \"keep\"\n", "raw_keys (file): expected hash or refuse"),
            ("[access]\nread_tokens = [\"tiny-secret\"]\n", "read_tokens (file): expected"),
            ("[access]\nread_tokens = [\"tiny-secret\n", "line 2: this is not valid TOML"),
            ("[server]\npublic_url = \"ftp://x\"\n", "public_url (file): expected"),
            ("[store]\nretention_days = 0\n", "retention_days (file): expected a whole number"),
            (
                "[store]\nretention_days = 30\nsums_retention_days = 29\n",
                "sums_retention_days (file): expected a whole number from 30 to",
            ),
            ("[store]\nmax_bytes = \"20\"\n", "max_bytes (file): expected a size"),
            ("[store]\ndatabase_url = \"mysql://u:tiny-secret@h/d\"\n", "database_url (file)"),
        ];
        for (text, expected) in cases {
            let own = file(text);
            let sources = Sources { file: Some(own.path().to_owned()), ..Sources::default() };
            let error = Config::load(&sources).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(expected), "{text}: {shown}");
            assert!(!shown.contains("tiny-secret"), "{shown}");
        }
    }

    #[test]
    fn an_environment_variable_that_names_no_setting_is_reported_and_harmless() {
        let environment = env(&[("RETRYLENS_LISTN", "x"), ("RETRYLENS_SERVICE_HOST", "10.0.0.1")]);
        let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
        assert_eq!(config.warnings.len(), 2);
        assert!(config.warnings.iter().any(|w| w.contains("RETRYLENS_LISTN")));
    }

    #[test]
    fn lists_come_from_the_environment_separated_by_commas() {
        let environment = env(&[("RETRYLENS_ALLOWED_HOSTS", "Lens.Internal, b.example ,")]);
        let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
        assert_eq!(config.server.allowed_hosts, ["lens.internal", "b.example"]);
    }

    #[test]
    fn what_is_shown_of_the_settings_holds_no_secret() {
        let environment = env(&[
            ("RETRYLENS_READ_TOKENS", "reading-token-0123456789"),
            ("RETRYLENS_INGEST_TOKENS", "sending-token-0123456789,sending-token-9876543210"),
            ("RETRYLENS_HASH_KEY", "hash-key-0123456789"),
            ("RETRYLENS_DATABASE_URL", "postgres://lens:database-pass@db.example/lens"),
        ]);
        let config = Config::load(&Sources { environment, ..Sources::default() }).unwrap();
        let shown = format!("{config:?}");
        for secret in ["reading-token", "sending-token", "hash-key-0", "database-pass"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
        assert_eq!(config.access.ingest_tokens.len(), 2);
    }
}
