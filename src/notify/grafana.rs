//! Alert rules to a Grafana server, through its provisioning API.
//!
//! What is there is read first, and only what differs is sent: a folder that is missing, and each
//! group in which a rule differs, whole, since that is how Grafana takes groups. Rules of others in
//! the same group are sent back as they were read. A rule that is paused there stays paused.
//!
//! <https://grafana.com/docs/grafana/latest/developers/http_api/alerting_provisioning/>

use super::client::{Answer, Client, Outgoing};
use crate::config::secret::Secret;
use crate::domain::retry_after::duration;
use crate::domain::retry_policy::{Failure, Next, Policy};
use crate::domain::time::Millis;
use crate::export::grafana::{ApiGroup, FOLDER, is_uid};
use crate::export::text;
use reqwest::Method;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::time::Instant;
use url::Url;

/// The environment variable with the token.
pub const TOKEN: &str = "RETRYLENS_GRAFANA_TOKEN";

/// Longest answer that is read: a group of rules is far smaller.
const MOST_BYTES: usize = 8 << 20;

/// Somebody waits for the end of it.
const POLICY: Policy = Policy {
    base: Millis(500),
    longest_wait: Millis(60_000),
    attempts: 5,
    deadline: Millis(120_000),
};

/// Why rules could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The address can't be one of a Grafana server.
    #[error(
        "--push expects the address of a Grafana server, such as https://grafana.example.com, \
         without a user, a query or a fragment"
    )]
    Address,
    /// No answer came from it.
    #[error("{to} {problem}")]
    Unreachable {
        /// Its address.
        to: String,
        /// What went wrong.
        problem: String,
    },
    /// The token was not accepted.
    #[error(
        "{to} does not accept the token (401); set RETRYLENS_GRAFANA_TOKEN to the token of a service \
         account"
    )]
    Token {
        /// Its address.
        to: String,
    },
    /// The token may not do it.
    #[error(
        "{to} refuses to {what} (403); the service account needs the role Editor, or the permissions \
         alert.provisioning:read and :write, folders:read and folders:create"
    )]
    Forbidden {
        /// Its address.
        to: String,
        /// What was refused.
        what: String,
    },
    /// It is no Grafana server, or not at this path.
    #[error("{to} {said} when asked to {what}; is it the address of Grafana, with its sub-path?")]
    NotGrafana {
        /// Its address.
        to: String,
        /// What was asked.
        what: String,
        /// What it answered.
        said: String,
    },
    /// Rules there come from a file and can't be changed over the API.
    #[error(
        "the group {group} in the folder {FOLDER} was provisioned from a file, and Grafana lets only \
         that file change it; remove the file there first"
    )]
    FromFile {
        /// The group.
        group: String,
    },
    /// It refused.
    #[error("{to} {said} when asked to {what}")]
    Refused {
        /// Its address.
        to: String,
        /// What was asked.
        what: String,
        /// What it answered.
        said: String,
    },
}

/// A Grafana server.
#[derive(Debug)]
pub struct Grafana {
    client: Client,
    /// Without a slash at its end.
    base: String,
    token: Secret,
}

/// What a push changes.
#[derive(Debug, Default)]
pub struct Plan {
    /// What is different, for people.
    pub text: String,
    makes_folder: bool,
    /// Groups by name, as they are to be sent, and whether they can be edited in Grafana.
    groups: Vec<(String, Value, bool)>,
}

impl Plan {
    /// Whether everything is there already.
    pub fn is_empty(&self) -> bool {
        !self.makes_folder && self.groups.is_empty()
    }

    /// Adds what of a group differs from what is there.
    fn compare(&mut self, group: &ApiGroup, there: Option<&Value>) -> Result<(), PushError> {
        let known =
            there.and_then(|there| there["rules"].as_array()).map_or(&[][..], Vec::as_slice);
        let from = |word: &str| known.iter().any(|rule| rule["provenance"] == word);
        let mut lines = String::new();
        let interval = there.map_or(&Value::Null, |there| &there["interval"]);
        if there.is_some() && *interval != json!(group.interval) {
            writeln!(lines, "  ~ interval: {interval} → {}", group.interval).ok();
        }
        let mut rules = Vec::new();
        for rule in &group.rules {
            let mut rule = rule.clone();
            let title = rule["title"].as_str().unwrap_or_default().to_owned();
            let Some(own) = known.iter().find(|known| known["uid"] == rule["uid"]) else {
                writeln!(lines, "  + {title}").ok();
                rules.push(rule);
                continue;
            };
            let is_paused = own["isPaused"] == true;
            rule["isPaused"] = json!(is_paused);
            let mut found = Vec::new();
            differences(&rule, own, "", &mut found);
            if !found.is_empty() {
                let paused = if is_paused { " (stays paused)" } else { "" };
                writeln!(lines, "  ~ {title}{paused}").ok();
            }
            for difference in found {
                writeln!(lines, "      {difference}").ok();
            }
            rules.push(rule);
        }
        for other in known {
            let uid = other["uid"].as_str().unwrap_or_default();
            if group.rules.iter().any(|rule| rule["uid"] == uid) {
                continue;
            }
            // Ours of an earlier version goes; what others put there stays.
            if uid.strip_prefix(FOLDER).is_some_and(|rest| rest.starts_with('-')) && is_uid(uid) {
                writeln!(lines, "  - {}", other["title"].as_str().unwrap_or(uid)).ok();
            } else {
                rules.push(other.clone());
            }
        }
        if lines.is_empty() {
            return Ok(());
        }
        if from("file") {
            return Err(PushError::FromFile { group: group.title.to_owned() });
        }
        let mark = if there.is_some() { '~' } else { '+' };
        write!(self.text, "{mark} group {}\n{lines}", group.title).ok();
        let body = json!({
            "title": group.title,
            "folderUid": group.folder_uid,
            "interval": group.interval,
            "rules": rules,
        });
        // Rules that were made without this header can't be sent with it (grafana-client#52).
        self.groups.push((group.title.to_owned(), body, !from("api")));
        Ok(())
    }
}

impl Grafana {
    /// A server by its address, with the token of a service account.
    pub fn new(client: Client, address: &str, token: Secret) -> Result<Self, PushError> {
        let url = Url::parse(address.trim()).map_err(|_| PushError::Address)?;
        let is_plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !is_plain {
            return Err(PushError::Address);
        }
        Ok(Self { client, base: url.as_str().trim_end_matches('/').to_owned(), token })
    }

    /// Compares `groups` with what is there.
    pub async fn plan(&self, groups: &[ApiGroup]) -> Result<Plan, PushError> {
        let mut plan = Plan::default();
        let folder = self.get(&format!("/api/folders/{FOLDER}"), "read the folder").await?;
        if folder.is_none() {
            plan.makes_folder = true;
            writeln!(plan.text, "+ folder {FOLDER}").ok();
        }
        for group in groups {
            let there = match folder {
                None => None,
                Some(_) => self.get(&path(group.title), "read the rules").await?,
            };
            plan.compare(group, there.as_ref())?;
        }
        Ok(plan)
    }

    /// Sends what is planned.
    pub async fn push(&self, plan: &Plan) -> Result<(), PushError> {
        if plan.makes_folder {
            let folder = json!({"uid": FOLDER, "title": FOLDER}).to_string();
            let what = "make the folder";
            self.done(Method::POST, "/api/folders", Some(&folder), true, what).await?;
        }
        for (title, body, is_editable) in &plan.groups {
            let (path, body) = (path(title), body.to_string());
            let what = format!("replace the group {title}");
            self.done(Method::PUT, &path, Some(&body), *is_editable, &what).await?;
        }
        Ok(())
    }

    /// Reads something; `None` where it isn't there.
    async fn get(&self, path: &str, what: &str) -> Result<Option<Value>, PushError> {
        let answer = self.ask(Method::GET, path, None, true).await?;
        let json = serde_json::from_slice::<Value>(&answer.body).ok().filter(Value::is_object);
        match (answer.status, json) {
            // Grafana says what it doesn't have in `message`; others' 404s look otherwise.
            (404, Some(value)) if value["message"].is_string() => Ok(None),
            (200, Some(value)) if answer.is_whole => Ok(Some(value)),
            // A page, or nothing: whatever this is, its API isn't here.
            (200..=399 | 404, _) => Err(PushError::NotGrafana {
                to: self.base.clone(),
                what: what.to_owned(),
                said: self.said(&answer),
            }),
            _ => Err(self.refused(&answer, what)),
        }
    }

    async fn done(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        is_editable: bool,
        what: &str,
    ) -> Result<(), PushError> {
        let answer = self.ask(method, path, body, is_editable).await?;
        if answer.is_success() { Ok(()) } else { Err(self.refused(&answer, what)) }
    }

    fn refused(&self, answer: &Answer, what: &str) -> PushError {
        let (to, what) = (self.base.clone(), what.to_owned());
        match answer.status {
            401 => PushError::Token { to },
            403 => PushError::Forbidden { to, what },
            _ => PushError::Refused { to, what, said: self.said(answer) },
        }
    }

    /// What it answered, without the token should it be in there.
    fn said(&self, answer: &Answer) -> String {
        let shown = answer.shown();
        match self.token.expose() {
            "" => shown,
            token => shown.replace(token, "[token]"),
        }
    }

    /// Asks until there is an answer that trying again wouldn't change. All requests may be repeated.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&str>,
        is_editable: bool,
    ) -> Result<Answer, PushError> {
        let url = format!("{}{path}", self.base);
        let token = format!("Bearer {}", self.token.expose());
        let mut headers = vec![("authorization", token.as_str()), ("accept", "application/json")];
        if is_editable {
            headers.push(("x-disable-provenance", "true"));
        }
        let request =
            Outgoing { method, url: &url, headers: &headers, body, most_bytes: MOST_BYTES };
        let begun = Instant::now();
        let mut attempt = 1;
        loop {
            let result = self.client.send(&request).await;
            let failure = match &result {
                Ok(answer) if answer.is_success() => return result.map_err(|_| PushError::Address),
                Ok(answer) => answer.failure(),
                Err(_) => Failure::NoAnswer,
            };
            let elapsed = i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX);
            match POLICY.next(failure, attempt, Millis(elapsed), rand::random()) {
                Next::Wait(wait) => {
                    tokio::time::sleep(Duration::from_millis(wait.0.unsigned_abs())).await;
                    attempt += 1;
                }
                Next::Stop(_) => {
                    return result.map_err(|error| PushError::Unreachable {
                        to: self.base.clone(),
                        problem: error.to_string(),
                    });
                }
            }
        }
    }
}

/// Where a group of ours is.
fn path(group: &str) -> String {
    format!("/api/v1/provisioning/folder/{FOLDER}/rule-groups/{group}")
}

/// Longest value that is shown of a difference, in characters.
const SHOWN_CHARS: usize = 100;

/// What of `ours` isn't the same in `theirs`. What Grafana adds by itself doesn't count, except where
/// names are chosen freely: in labels and annotations.
fn differences(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (ours, theirs) {
        (Value::Object(own), Value::Object(there)) => {
            for (name, value) in own {
                // The organisation is the token's.
                if path.is_empty() && name == "orgID" {
                    continue;
                }
                differences(value, there.get(name).unwrap_or(&Value::Null), &below(name), found);
            }
            let is_free = matches!(path, "labels" | "annotations");
            for (name, value) in there.iter().filter(|(name, _)| !own.contains_key(*name)) {
                // A rule that isn't held open after it ended says nothing of it here, "0s" there.
                let is_held = path.is_empty() && name == "keep_firing_for" && !is_no_time(value);
                if is_free || is_held {
                    let (there, own) = shown(value, &Value::Null);
                    found.push(format!("{}: {there} → {own}", below(name)));
                }
            }
        }
        (Value::Array(own), Value::Array(there)) if own.len() == there.len() => {
            for (at, (own, there)) in own.iter().zip(there).enumerate() {
                differences(own, there, &format!("{path}[{at}]"), found);
            }
        }
        _ if ours == theirs => {}
        _ if matches!(path, "for" | "keep_firing_for") && length(ours) == length(theirs) => {}
        _ => {
            let (there, own) = shown(theirs, ours);
            found.push(format!("{path}: {there} → {own}"));
        }
    }
}

/// A length of time such as `10m`, which Grafana may write in another way.
fn length(value: &Value) -> Option<Millis> {
    duration(value.as_str()?)
}

fn is_no_time(value: &Value) -> bool {
    value.is_null() || length(value) == Some(Millis(0))
}

/// Two values as they are shown beside each other: long ones from a little before what differs on.
fn shown(theirs: &Value, ours: &Value) -> (String, String) {
    let texts = [theirs, ours].map(|value| match value {
        Value::Null => "nothing".to_owned(),
        value => value.to_string(),
    });
    let same = texts[0].chars().zip(texts[1].chars()).take_while(|(a, b)| a == b).count();
    let from = if same > SHOWN_CHARS / 2 { same - SHOWN_CHARS / 4 } else { 0 };
    let [theirs, ours] = texts.map(|text| {
        let start = text::cut(&text, from).0.len();
        let (shown, is_cut) = text::cut(text.get(start..).unwrap_or_default(), SHOWN_CHARS);
        let [before, after] = [from > 0, is_cut].map(|is| if is { "…" } else { "" });
        format!("{before}{}{after}", text::visible(shown))
    });
    (theirs, ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grafana_adds_is_no_difference() {
        let ours = json!({"uid": "a", "for": "10m", "orgID": 1, "labels": {"severity": "critical"},
            "data": [{"refId": "query", "model": {"expr": "up", "instant": true}}]});
        let mut theirs = json!({"id": 7, "uid": "a", "for": "10m0s", "orgID": 4, "updated": "x",
            "keep_firing_for": "0s", "provenance": "", "labels": {"severity": "critical"},
            "data": [{"refId": "query", "queryType": "",
                "model": {"expr": "up", "instant": true, "intervalMs": 1000}}]});
        let found = |ours: &Value, theirs: &Value| {
            let mut found = Vec::new();
            differences(ours, theirs, "", &mut found);
            found
        };
        assert_eq!(found(&ours, &theirs), [""; 0]);
        theirs["keep_firing_for"] = json!("5m");
        theirs["labels"]["team"] = json!("edge");
        theirs["for"] = json!("5m");
        theirs["data"][0]["model"]["expr"] = json!("down");
        assert_eq!(
            found(&ours, &theirs),
            [
                "data[0].model.expr: \"down\" → \"up\"",
                "for: \"5m\" → \"10m\"",
                "labels.team: \"edge\" → nothing",
                "keep_firing_for: \"5m\" → nothing",
            ]
        );
    }

    #[test]
    fn what_differs_far_into_a_long_expression_is_shown() {
        let sums = "sum by (service) (increase(é[5m])) ".repeat(9);
        let of = |limit: &str| json!({"expr": format!("{sums}> {limit} and {sums}")});
        let mut found = Vec::new();
        differences(&of("0.2"), &of("0.35"), "", &mut found);
        let [one] = &found[..] else { panic!("{found:?}") };
        assert!(one.contains("> 0.35 and") && one.contains("> 0.2 and"), "{one}");
        assert!(one.chars().count() < 2 * SHOWN_CHARS + 30, "{one}");
    }

    #[test]
    fn only_the_plain_address_of_a_server_is_taken() {
        let client = || {
            let clock = std::sync::Arc::new(crate::clock::SystemClock);
            Client::new(Duration::from_secs(1), clock).unwrap()
        };
        let base = |address: &str| {
            Grafana::new(client(), address, Secret::new("t")).map(|grafana| grafana.base).ok()
        };
        assert_eq!(base("https://g.example.com/sub/").unwrap(), "https://g.example.com/sub");
        for bad in [
            "",
            "g.example.com",
            "ftp://g.example.com",
            "http://u:p@g.example.com",
            "http://g.example.com/?a=b",
            "http://g.example.com/#a",
        ] {
            assert_eq!(base(bad), None, "{bad}");
        }
    }
}
