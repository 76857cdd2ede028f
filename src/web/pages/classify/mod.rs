//! `/classify`: paste one response, or upload a HAR file, and read who returned it. Nothing of it
//! is stored.

mod echo;
mod known;

pub use known::{Known, find as find_known};

use super::model::Shell;
use super::verdict::VerdictView;
use super::{address::filled, render, words};
use crate::domain::redact;
use crate::domain::response::Response;
use crate::export::verdict::Answer;
use crate::ingest::case::{self, Case};
use crate::ingest::{har, response};
use crate::web::api::Problems;
use crate::web::extract::{CappedBody, Peer};
use crate::web::{AppState, Code, Failure};
use askama::Template;
use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request, State};
use axum::response::Html;
use serde_json::Value;
use std::fmt::Write as _;

/// How many exchanges of a HAR file a page shows.
const MAX_SHOWN: usize = 200;

/// What was pasted or uploaded, with what the sender said beside it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Input {
    /// One response as text, a HAR file, or an object with `raw`.
    pub text: String,
    /// Who owns the API, where the sender says so.
    pub provider: Option<String>,
    /// Address of the request.
    pub url: Option<String>,
}

/// One response that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// What to judge and what was left open while reading.
    pub case: Case,
    /// Position in a HAR file, from 0.
    pub index: Option<usize>,
    /// Its address there.
    pub url: Option<String>,
    /// What is stored under its ids.
    pub known: Option<Known>,
}

/// Everything that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// One response, or the limited and failed exchanges of a HAR file.
    pub judged: Vec<Judged>,
    /// For a HAR file: how many exchanges it holds in all.
    pub exchanges: Option<usize>,
}

impl Input {
    /// Reads a HAR file, an object with `raw`, one response as text, or a line of an access log.
    ///
    /// # Errors
    /// What was expected, in words for the person who pasted it.
    pub fn read(&self) -> Result<Read, String> {
        let text = self.text.as_str();
        if har::is_har(text) {
            return self.read_har();
        }
        let mut case = case::of_text(text).map_err(|error| match error.field {
            Some(field) => format!("{field}: {}", error.reason),
            None => error.reason,
        })?;
        self.add_surroundings(&mut case.response);
        Ok(Read {
            judged: vec![Judged { case, index: None, url: None, known: None }],
            exchanges: None,
        })
    }

    fn read_har(&self) -> Result<Read, String> {
        let entries = har::entries(self.text.as_bytes()).map_err(|error| error.to_string())?;
        let exchanges = Some(entries.len());
        let judged = entries
            .into_iter()
            .filter(|entry| is_worth_judging(&entry.response))
            .map(|mut entry| {
                self.add_surroundings(&mut entry.response);
                let case = Case {
                    id: Value::from(entry.index),
                    response: entry.response,
                    problems: Vec::new(),
                };
                Judged { case, index: Some(entry.index), url: Some(entry.url), known: None }
            })
            .collect();
        Ok(Read { judged, exchanges })
    }

    fn add_surroundings(&self, response: &mut Response) {
        if let Some(provider) = &self.provider {
            response.provider = Some(provider.clone());
        }
        if let Some(url) = &self.url {
            response::address(url, &mut response.request);
        }
    }
}

/// Limited or failed exchanges; the others of a HAR file are left out.
fn is_worth_judging(response: &Response) -> bool {
    response.status.is_some_and(|status| status >= 400)
        || crate::domain::classify::summarize(response).limited
}

/// The JSON of one judged response, the same as the command line's.
pub fn answer(judged: &Judged) -> Value {
    let verdict = crate::domain::classify::classify(&judged.case.response);
    let answer = Answer {
        index: judged.index,
        url: judged.url.as_deref(),
        problems: &judged.case.problems,
        ..Answer::new(judged.case.id.clone(), &judged.case.response, &verdict)
    };
    let mut answer = serde_json::to_value(answer).unwrap_or_default();
    if let (Some(known), Value::Object(members)) = (&judged.known, &mut answer) {
        members.insert("stored".to_owned(), serde_json::to_value(known).unwrap_or_default());
    }
    answer
}

/// Reads a form as browsers send it: text pasted, or a file.
async fn read_form(state: &AppState, request: Request) -> Result<Input, Failure> {
    let (parts, body) = request.into_parts();
    let sender = Peer::of(&parts.extensions).connection(None);
    let mut body =
        CappedBody::read(&parts.headers, body, &sender, &state.bodies, &state.config).await?;
    let bytes = body.inflate(state.config.ingest.max_inflated_bytes)?.into_owned();
    let request = Request::from_parts(parts, Body::from(bytes));
    let bad = |_| Failure::new(Code::InvalidBody, "Expected the fields of the form on this page.");
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|_| Failure::new(Code::UnsupportedMediaType, "Expected multipart/form-data."))?;
    let mut input = Input::default();
    while let Some(field) = form.next_field().await.map_err(bad)? {
        let name = field.name().unwrap_or_default().to_owned();
        let bytes = field.bytes().await.map_err(bad)?;
        let text = String::from_utf8_lossy(&bytes);
        match name.as_str() {
            "raw" if !text.trim().is_empty() => input.text = text.into_owned(),
            // A file stands above what is still in the text field.
            "file" if !bytes.is_empty() => input.text = text.into_owned(),
            "provider" => input.provider = filled(Some(&text)).map(ToOwned::to_owned),
            "url" => input.url = filled(Some(&text)).map(ToOwned::to_owned),
            _ => {}
        }
    }
    Ok(input)
}

/// `GET /classify`
#[utoipa::path(get, path = "/classify", tag = "pages",
    responses((status = 200, description = "A form for one response", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn form() -> Result<Html<String>, Failure> {
    render(&ClassifyPage::empty())
}

/// `POST /classify`
#[utoipa::path(post, path = "/classify", tag = "pages",
    request_body(content = String, content_type = "multipart/form-data", description = "The fields `raw` or `file`, `url`, `provider`"),
    responses((status = 200, description = "The verdict", body = String, content_type = "text/html"), Problems))]
pub(crate) async fn judge(
    State(state): State<AppState>,
    request: Request,
) -> Result<Html<String>, Failure> {
    let input = read_form(&state, request).await?;
    // A HAR file may take long; others are answered meanwhile.
    let turn = state.bodies.turn().await;
    let reading = tokio::task::spawn_blocking(move || (input.read(), input));
    let (mut read, input) = reading.await.map_err(|error| Failure::internal(&error))?;
    if let Ok(read) = &mut read {
        known::find(&state, read).await?;
    }
    let page = tokio::task::spawn_blocking(move || {
        let page = ClassifyPage::of(&input, read);
        drop(turn);
        render(&page)
    });
    page.await.map_err(|error| Failure::internal(&error))?
}

/// One verdict on the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    index: usize,
    suffix: String,
    title: String,
    view: VerdictView,
    problems: Vec<String>,
    known: Option<Known>,
}

/// The page.
#[derive(Debug, Clone, Template)]
#[template(path = "pages/classify.html")]
pub struct ClassifyPage {
    shell: Shell,
    text: String,
    provider: String,
    url: String,
    error: Option<String>,
    summary: Option<String>,
    shown: Vec<Shown>,
    example: &'static str,
}

/// What the form shows as an example.
const EXAMPLE: &str = "HTTP/2 429\nserver: cloudflare\ncf-ray: 8f2a01b2c3d4e5f6-GRU\n\
                       content-type: text/plain; charset=UTF-8\nretry-after: 30\n\n\
                       error code: 1015";

impl ClassifyPage {
    /// The form alone.
    pub fn empty() -> Self {
        Self {
            shell: Shell::new("Classify a response", "classify"),
            text: String::new(),
            provider: String::new(),
            url: String::new(),
            error: None,
            summary: None,
            shown: Vec::new(),
            example: EXAMPLE,
        }
    }

    /// The form with what came of it, without what is stored.
    #[cfg(test)]
    fn new(input: &Input) -> Self {
        Self::of(input, input.read())
    }

    /// The form with what came of it.
    pub fn of(input: &Input, read: Result<Read, String>) -> Self {
        let mut page = Self {
            text: echo::shown_again(&input.text),
            provider: redact::text(input.provider.as_deref().unwrap_or_default()).text,
            url: redact::text(input.url.as_deref().unwrap_or_default()).text,
            ..Self::empty()
        };
        match read {
            Err(error) => page.error = Some(redact::owned(error).text),
            Ok(read) => page.show(&read),
        }
        page
    }

    fn show(&mut self, read: &Read) {
        let n = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
        self.summary = read.exchanges.map(|all| {
            let judged = n(read.judged.len());
            let mut text = format!(
                "{} of {} limited or failed.",
                words::count(judged),
                words::counted(n(all), "exchange was", "exchanges were")
            );
            if read.judged.len() > MAX_SHOWN {
                write!(text, " The first {MAX_SHOWN} are shown; the API lists all.").ok();
            }
            text
        });
        self.shown = read
            .judged
            .iter()
            .take(MAX_SHOWN)
            .enumerate()
            .map(|(index, judged)| Shown {
                index,
                suffix: if index == 0 { String::new() } else { format!(" {}", index + 1) },
                title: match (&judged.url, judged.index) {
                    (Some(url), Some(position)) => {
                        // People count from 1.
                        format!("Exchange {}: {url}", position.saturating_add(1))
                    }
                    _ => "Verdict".to_owned(),
                },
                view: VerdictView::of(&judged.case.response),
                problems: judged.case.problems.clone(),
                known: judged.known.clone(),
            })
            .collect();
    }

    /// Pages to look at.
    #[cfg(test)]
    pub(crate) fn samples() -> Vec<(&'static str, Self)> {
        use super::samples;
        let of = |text: &str| {
            Self::new(&Input {
                text: text.to_owned(),
                provider: Some(samples::hostile()[0].clone()),
                url: Some(samples::hostile()[3].clone()),
            })
        };
        let headers: Vec<String> = samples::hostile()
            .iter()
            .enumerate()
            .map(|(i, text)| format!("x-ratelimit-{i}: {}", text.replace('\n', " ")))
            .collect();
        let headers = headers.join("\n");
        let entry = |text: &str| {
            serde_json::json!({
                "request": {"method": "GET", "url": format!("https://api.example.com/{text}"), "headers": []},
                "response": {"status": 429, "headers": [{"name": "server", "value": text}],
                    "content": {"text": text}},
            })
        };
        let entries: Vec<Value> = samples::hostile().iter().map(|text| entry(text)).collect();
        let har = serde_json::json!({"log": {"entries": entries}}).to_string();
        vec![
            ("empty", Self::empty()),
            ("usual", Self::new(&Input { text: EXAMPLE.to_owned(), ..Input::default() })),
            ("unreadable", of("<script>no status line</script>")),
            (
                "hostile",
                of(&format!("HTTP/1.1 429 <b>\n{headers}\n{}", samples::hostile().concat())),
            ),
            ("har", of(&har)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::classify::Responder;

    #[test]
    fn a_pasted_response_an_object_and_a_har_are_told_apart() {
        let text = Input { text: EXAMPLE.to_owned(), ..Input::default() };
        let read = text.read().unwrap();
        assert_eq!(read.judged.len(), 1);
        assert_eq!(answer(&read.judged[0])["returned_by"], Responder::Cloudflare.as_str());

        let object = serde_json::json!({"id": "a", "raw": EXAMPLE}).to_string();
        let read = Input { text: object, ..Input::default() }.read().unwrap();
        assert_eq!(answer(&read.judged[0])["id"], "a");

        let har = r#"{"log":{"entries":[
            {"request":{"method":"GET","url":"https://api.example.com/a"},"response":{"status":200}},
            {"request":{"method":"GET","url":"https://api.example.com/b"},"response":{"status":429}}]}}"#;
        let read = Input { text: har.to_owned(), ..Input::default() }.read().unwrap();
        assert_eq!((read.judged.len(), read.exchanges), (1, Some(2)));
        assert_eq!(answer(&read.judged[0])["index"], 1);
    }

    #[test]
    fn what_cannot_be_read_says_what_was_expected() {
        for text in ["", "hello", "{\"raw\": 5}", "{\"log\":{\"entries\":5}}"] {
            let error = Input { text: text.to_owned(), ..Input::default() }.read().unwrap_err();
            assert!(error.contains("expected"), "{text}: {error}");
        }
    }
}
