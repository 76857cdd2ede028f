//! `[notify]` and `[[receivers]]`: who is told of alerts, and how it is tried again.

use super::ConfigError;
use super::layers::Settings;
use super::secret::{Secret, SigningKey};
use crate::domain::alerts::notice::Addressee;
use crate::domain::alerts::{ReceiverKey, Severity};
use crate::domain::retry_policy::{Budget, Policy};
use crate::domain::spelling::spelled_enum;
use crate::domain::time::Millis;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use toml::{Table, Value};
use url::Url;

/// The setting that holds the list of receivers.
pub(super) const RECEIVERS: &str = "receivers";

/// Most receivers.
const MOST: usize = 50;

spelled_enum! {
    /// What a receiver speaks.
    pub enum ReceiverKind {
        /// The second version of Alertmanager's API.
        Alertmanager => "alertmanager",
        /// Any program: JSON, signed as Standard Webhooks prescribes.
        Webhook => "webhook",
        /// An incoming webhook of Slack.
        Slack => "slack",
    }
}

/// Somebody who is told of alerts.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Its name, and what it is told of.
    pub addressee: Addressee,
    /// What it speaks.
    pub kind: ReceiverKind,
    /// Where to send, whole.
    pub url: Secret,
    /// Keys to sign with: one, two while they change; none where nothing is signed.
    pub keys: Vec<SigningKey>,
    /// What lets us in, where something is asked for.
    pub token: Option<Secret>,
}

impl Receiver {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.addressee.name
    }

    /// What it is known by where its address may not be kept: for that stands enough of its SHA-256 to
    /// tell it from the one it had before, and too little to try guesses on.
    pub fn key(&self) -> ReceiverKey {
        let mut address = hex::encode(Sha256::digest(self.url.expose()));
        address.truncate(8);
        ReceiverKey { name: self.name().to_owned(), address }
    }

    /// Scheme, host and port of its address, which may be shown.
    pub fn origin(&self) -> String {
        Url::parse(self.url.expose()).ok().and_then(|url| origin(&url)).unwrap_or_default()
    }
}

/// `[notify]`
#[derive(Debug, Clone)]
pub struct Notify {
    /// Who is told.
    pub receivers: Vec<Receiver>,
    /// Longest time of an attempt.
    pub timeout: Duration,
    /// Attempts in one go.
    pub soon: Policy,
    /// Goes, each of which begins with what the database holds.
    pub later: Policy,
    /// Bounds the share of retries within goes, for each receiver.
    pub budget: Budget,
    /// How often it is looked what is to be sent.
    pub poll: Duration,
    /// How often an Alertmanager is told again.
    pub resend: Millis,
    /// Environment variables that secrets were read from.
    variables: Vec<String>,
}

impl Notify {
    pub(super) fn read(
        settings: &Settings,
        environment: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        const DAY: u64 = 86_400_000;
        let number = |name: &str, least, most| settings.number(name, least, most);
        let millis = |name: &str, least, most| -> Result<Millis, ConfigError> {
            Ok(Millis(i64::try_from(number(name, least, most)?).unwrap_or(i64::MAX)))
        };
        let count = |name: &str, most| -> Result<u32, ConfigError> {
            Ok(u32::try_from(number(name, 1, most)?).unwrap_or(u32::MAX))
        };
        let mut variables = Vec::new();
        let tables = settings.value(RECEIVERS).and_then(Value::as_array);
        let tables = tables.map_or(&[][..], Vec::as_slice);
        if tables.len() > MOST {
            return Err(settings.bad(RECEIVERS, &format!("at most {MOST}")));
        }
        let mut receivers: Vec<Receiver> = Vec::new();
        for (index, table) in tables.iter().enumerate() {
            let place = |field: &str| format!("{RECEIVERS}[{index}]{field}");
            let table = table.as_table().ok_or_else(|| settings.bad(&place(""), "a table"))?;
            let mut fields = Fields { table, environment, variables: &mut variables };
            let receiver = fields
                .receiver()
                .map_err(|problem| settings.bad(&place(&problem.field), &problem.expected))?;
            if receivers.iter().any(|other| other.name() == receiver.name()) {
                return Err(settings.bad(&place(".name"), "a name that no other receiver has"));
            }
            receivers.push(receiver);
        }
        Ok(Self {
            receivers,
            timeout: Duration::from_millis(number("notify_timeout_ms", 100, 300_000)?),
            soon: Policy {
                base: millis("notify_base_ms", 1, 60_000)?,
                longest_wait: millis("notify_max_wait_ms", 1, 600_000)?,
                attempts: count("notify_attempts", 20)?,
                deadline: millis("notify_deadline_ms", 1, 3_600_000)?,
            },
            later: Policy {
                base: millis("notify_later_base_ms", 1, DAY)?,
                longest_wait: millis("notify_later_max_wait_ms", 1, DAY)?,
                attempts: count("notify_later_attempts", 10_000)?,
                deadline: millis("notify_give_up_ms", 1, 30 * DAY)?,
            },
            budget: Budget::new(
                number("notify_retry_percent", 0, 100)?,
                number("notify_retry_reserve", 0, 10_000)?,
            ),
            poll: Duration::from_millis(number("notify_poll_ms", 10, 60_000)?),
            resend: millis("notify_resend_ms", 100, 600_000)?,
            variables,
        })
    }

    /// Whether a secret was read from this environment variable.
    pub(super) fn reads(&self, variable: &str) -> bool {
        self.variables.iter().any(|name| name == variable)
    }

    /// How long one who takes something to be sent may have it: longer than a go can take.
    pub fn lease(&self) -> Millis {
        let timeout = i64::try_from(self.timeout.as_millis()).unwrap_or(i64::MAX);
        Millis(self.soon.deadline.0.saturating_add(timeout).saturating_add(LEASE_MARGIN_MS))
    }
}

/// Time for what is done around the attempts of a go.
const LEASE_MARGIN_MS: i64 = 5_000;

/// Why a receiver can't be used: the field, with a point before it, and what would be right.
struct Problem {
    field: String,
    expected: String,
}

fn problem(field: &str, expected: impl Into<String>) -> Problem {
    let field: String = field.chars().take(64).collect();
    Problem { field: format!(".{field}"), expected: expected.into() }
}

/// The fields of one receiver.
struct Fields<'a> {
    table: &'a Table,
    environment: &'a [(String, String)],
    variables: &'a mut Vec<String>,
}

const KNOWN: [&str; 12] = [
    "name",
    "kind",
    "severities",
    "url",
    "url_env",
    "url_file",
    "secret_env",
    "secret_file",
    "previous_secret_env",
    "previous_secret_file",
    "token_env",
    "token_file",
];

impl Fields<'_> {
    fn receiver(&mut self) -> Result<Receiver, Problem> {
        let unknown = self.table.keys().find(|field| !KNOWN.contains(&field.as_str()));
        if let Some(field) = unknown {
            let advice = match field.as_str() {
                "secret" | "token" => {
                    format!("{field}_env or {field}_file: secrets don't stand in the settings")
                }
                _ => format!("one of: {}", KNOWN.join(", ")),
            };
            return Err(problem(field, advice));
        }
        let name = self.text("name")?.filter(|name| is_name(name)).ok_or_else(|| {
            problem("name", "1 to 64 letters, digits, points, - or _, such as \"pager\"")
        })?;
        let kind: Option<ReceiverKind> = self.text("kind")?.and_then(|word| word.parse().ok());
        let kind =
            kind.ok_or_else(|| problem("kind", "\"alertmanager\", \"webhook\" or \"slack\""))?;
        let severities = self.severities()?;
        let ((Some(url), None) | (None, Some(url))) = (self.text("url")?, self.kept("url")?) else {
            return Err(problem("url", "an address in one of url, url_env and url_file"));
        };
        let url = address(&url, kind).ok_or_else(|| {
            problem("url", "http:// or https:// and a host, without user, password and fragment")
        })?;
        let mut keys = Vec::new();
        for field in ["secret", "previous_secret"] {
            if let Some(text) = self.kept(field)? {
                keys.push(SigningKey::from_setting(&text).map_err(|text| problem(field, text))?);
            }
        }
        let has = |field: &str| self.table.keys().any(|key| key.starts_with(field));
        match kind {
            ReceiverKind::Webhook if !has("secret_") => {
                return Err(problem(
                    "secret_env",
                    "a variable (or secret_file, a file) with whsec_…",
                ));
            }
            ReceiverKind::Alertmanager | ReceiverKind::Slack if !keys.is_empty() => {
                return Err(problem("secret_env", "nothing: only a webhook is signed"));
            }
            ReceiverKind::Webhook | ReceiverKind::Slack if has("token_") => {
                return Err(problem("token_env", "nothing: only an Alertmanager takes a token"));
            }
            _ => {}
        }
        let token = match self.kept("token")? {
            Some(text) if !text.chars().all(|c| c.is_ascii_graphic()) => {
                return Err(problem("token", "a token without spaces"));
            }
            token => token.map(Secret::new),
        };
        Ok(Receiver {
            addressee: Addressee { name, severities },
            kind,
            url: Secret::new(url),
            keys,
            token,
        })
    }

    /// A text; `None` where the field isn't there.
    fn text(&self, field: &str) -> Result<Option<String>, Problem> {
        match self.table.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(_) => Err(problem(field, "a text")),
        }
    }

    fn severities(&self) -> Result<Vec<Severity>, Problem> {
        let expected = || problem("severities", "a list of \"critical\" and \"warning\"");
        let Some(value) = self.table.get("severities") else { return Ok(Severity::ALL.to_vec()) };
        let words = value.as_array().ok_or_else(expected)?;
        let read = |word: &Value| word.as_str()?.parse().ok();
        let severities: Option<Vec<Severity>> = words.iter().map(read).collect();
        severities.filter(|list| !list.is_empty()).ok_or_else(expected)
    }

    /// What the variable `<field>_env` or the file `<field>_file` holds.
    fn kept(&mut self, field: &str) -> Result<Option<String>, Problem> {
        let [by_variable, by_file] = ["env", "file"].map(|suffix| format!("{field}_{suffix}"));
        let (found, at) = match (self.text(&by_variable)?, self.text(&by_file)?) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(problem(&by_file, format!("nothing where there is {by_variable}")));
            }
            (Some(name), None) => {
                let value = self.environment.iter().find(|(n, _)| *n == name);
                self.variables.push(name);
                (value.map(|(_, value)| value.clone()), by_variable)
            }
            (None, Some(path)) => (std::fs::read_to_string(path).ok(), by_file),
        };
        let found = found.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let expected =
            "the name of an environment variable that is set, or of a file that can be read";
        found.map(Some).ok_or_else(|| problem(&at, expected))
    }
}

fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=64).contains(&name.len()) && name.chars().all(plain)
}

/// The address that is sent to.
fn address(text: &str, kind: ReceiverKind) -> Option<String> {
    let mut url = Url::parse(text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return None;
    }
    if kind == ReceiverKind::Alertmanager {
        let path = url.path().trim_end_matches('/').trim_end_matches("/api/v2/alerts").to_owned();
        url.set_path(&format!("{}/api/v2/alerts", path.trim_end_matches("/api/v2")));
    }
    Some(url.into())
}

/// Scheme, host and port: what of an address is no secret.
fn origin(url: &Url) -> Option<String> {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
}

/// Receivers as they may be shown: addresses without what may be secret in them.
pub(super) fn shown(receivers: &[Value]) -> String {
    let shown = receivers.iter().cloned().map(|mut value| {
        if let Some(Value::String(url)) = value.get_mut("url") {
            *url = Url::parse(url)
                .ok()
                .and_then(|url| origin(&url))
                .map_or_else(|| "(hidden)".to_owned(), |origin| format!("{origin}/(hidden)"));
        }
        value
    });
    Value::Array(shown.collect()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Sources};

    const KEY: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

    fn load(receivers: &str) -> Result<Config, String> {
        let environment = [
            ("HOOK_KEY", KEY),
            ("RETRYLENS_OLD_KEY", "whsec_FxYVFBMSERAPDg0MCwoJCAcGBQQDAgEA"),
            ("SLACK", "https://hooks.slack.example.com/services/T0/B0/hidden-part"),
            ("WEAK", "whsec_AAEC"),
        ];
        let environment = environment.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
        let flags = vec![(RECEIVERS.to_owned(), receivers.to_owned())];
        Config::load(&Sources { environment, flags, file: None }).map_err(|e| e.to_string())
    }

    #[test]
    fn receivers_are_read_with_their_secrets_and_show_none_of_them() {
        let config = load(
            r#"[{name = "am", kind = "alertmanager", url = "http://192.0.2.1:9093/prefix/", token_env = "WEAK"},
                {name = "pager", kind = "webhook", url = "https://pager.example.com/h?key=hidden-part",
                 secret_env = "HOOK_KEY", previous_secret_env = "RETRYLENS_OLD_KEY", severities = ["critical"]},
                {name = "chat", kind = "slack", url_env = "SLACK"}]"#,
        )
        .unwrap();
        let [am, pager, chat] = &config.notify.receivers[..] else { panic!("three") };
        assert_eq!(am.url.expose(), "http://192.0.2.1:9093/prefix/api/v2/alerts");
        assert_eq!(am.addressee.severities, Severity::ALL);
        assert_eq!((pager.keys.len(), pager.keys[0].bytes().len()), (2, 24));
        assert!(pager.addressee.wants(Severity::Critical));
        assert!(!pager.addressee.wants(Severity::Warning));
        assert!(chat.url.expose().ends_with("hidden-part"));
        assert_eq!(config.warnings, [""; 0], "a variable with a secret is no mistaken setting");
        let shown = format!("{config:?}");
        for secret in ["hidden-part", "whsec_", "AAEC"] {
            assert!(!shown.contains(secret), "{secret} in {shown}");
        }
    }

    #[test]
    fn receivers_stand_at_the_top_of_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "[[receivers]]\nname = \"a\"\nkind = \"alertmanager\"\nurl = \"http://a.example.com\"\n\
                    [[receivers]]\nname = \"b\"\nkind = \"alertmanager\"\nurl = \"http://b.example.com\"\n";
        std::fs::write(file.path(), text).unwrap();
        let sources = Sources { file: Some(file.path().to_owned()), ..Sources::default() };
        assert_eq!(Config::load(&sources).unwrap().notify.receivers.len(), 2);
    }

    #[test]
    fn a_mistake_names_the_field_and_what_would_be_right() {
        let hook = r#"name = "a", kind = "webhook", url = "https://a.example.com""#;
        for (receiver, expected) in [
            (r#"kind = "slack""#.to_owned(), "receivers[0].name (flag): expected 1 to 64"),
            (r#"name = "a b""#.to_owned(), "receivers[0].name (flag): expected 1 to 64"),
            (
                r#"name = "a", kind = "mail""#.to_owned(),
                "receivers[0].kind (flag): expected \"alert",
            ),
            (
                r#"name = "a", kind = "slack""#.to_owned(),
                "receivers[0].url (flag): expected an address",
            ),
            (
                r#"name = "a", kind = "slack", url = "https://u:p@a.example.com""#.to_owned(),
                "receivers[0].url (flag): expected http://",
            ),
            (
                r#"name = "a", kind = "slack", url_env = "NONE""#.to_owned(),
                "receivers[0].url_env (flag): expected the name of an environment variable",
            ),
            (
                r#"name = "a", kind = "slack", url_file = "no/such/file""#.to_owned(),
                "receivers[0].url_file (flag): expected the name",
            ),
            (hook.to_owned(), "receivers[0].secret_env (flag): expected a variable"),
            (
                format!("{hook}, secret = \"x\""),
                "receivers[0].secret (flag): expected secret_env or",
            ),
            (
                format!("{hook}, secret_env = \"WEAK\""),
                "receivers[0].secret (flag): expected whsec_",
            ),
            (
                format!("{hook}, secret_env = \"HOOK_KEY\", severities = [\"loud\"]"),
                "receivers[0].severities (flag): expected a list",
            ),
            (format!("{hook}, colour = 1"), "receivers[0].colour (flag): expected one of: name"),
            (
                r#"name = "a", kind = "slack", url_env = "SLACK", token_env = "WEAK""#.to_owned(),
                "receivers[0].token_env (flag): expected nothing",
            ),
        ] {
            let error = load(&format!("[{{{receiver}}}]")).unwrap_err();
            assert!(error.contains(expected), "{receiver}: {error}");
            assert!(!error.contains("AAEC") && !error.contains("u:p"), "{error}");
        }
        let twice = r#"{name = "a", kind = "slack", url_env = "SLACK"}"#;
        let error = load(&format!("[{twice}, {twice}]")).unwrap_err();
        assert!(
            error.contains("receivers[1].name (flag): expected a name that no other"),
            "{error}"
        );
    }
}
