//! One response as a person pastes it: `curl -i`, `curl -v`, or raw HTTP/1.1 or HTTP/2 text.
//!
//! The parser is lenient on purpose. It takes LF and CRLF, a shell prompt in front, `curl -v`
//! with its notes and progress meter, several responses in a row (interim ones, a proxy's
//! `CONNECT`, redirects, retries), folded fields and chunk sizes left in a body. What it had to
//! guess or leave out is said in [`Parsed::problems`]. It never judges the response.

use crate::domain::response::{HeaderFields, RequestFacts, Response};
use crate::ingest::authority;

/// Longest body that is kept, in bytes of UTF-8. What lies beyond never names a limit.
pub const BODY_CAP: usize = 64 * 1024;
/// Longest header value that is kept, in characters.
const VALUE_CAP: usize = 16 * 1024;
/// Most header fields that are kept of one response.
const FIELD_CAP: usize = 512;
/// Most responses that are kept of one text; they are the last ones, since the last is judged.
const RESPONSE_CAP: usize = 64;

/// A response and what its text left open.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parsed {
    /// The response.
    pub response: Response,
    /// What was guessed, cut or ignored, in words.
    pub problems: Vec<String>,
}

/// Why a text could not be read as a response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// Nothing but white space.
    #[error("the input is empty; expected an HTTP response such as the output of `curl -i URL`")]
    Empty,
    /// There is no status line.
    #[error(
        "no status line found{}; expected a line such as `HTTP/1.1 429 Too Many Requests` or \
         `HTTP/2 429`, then header fields, as `curl -i` and `curl -v` print them",
        first_line(.start)
    )]
    NoStatusLine {
        /// The first line that is not blank, shortened.
        start: String,
    },
}

fn first_line(start: &str) -> String {
    if start.is_empty() { String::new() } else { format!(" (the text begins with {start:?})") }
}

/// Reads the response that a text ends with: the last one that is final. Interim (1xx) ones, a
/// proxy's answer to `CONNECT`, redirects that were followed and attempts that were retried come
/// before it and are counted in the problems.
pub fn parse(text: &str) -> Result<Parsed, ResponseError> {
    let mut all = parse_all(text);
    let count = all.len();
    let last = all
        .iter()
        .rposition(|parsed| !parsed.response.status.is_some_and(is_interim))
        .or_else(|| count.checked_sub(1));
    let Some(last) = last else {
        let start = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        return Err(if start.is_empty() {
            ResponseError::Empty
        } else {
            ResponseError::NoStatusLine { start: start.chars().take(60).collect() }
        });
    };
    let earlier: Vec<String> = all
        .iter()
        .take(last)
        .filter_map(|parsed| parsed.response.status)
        .map(|status| status.to_string())
        .collect();
    let mut parsed = all.swap_remove(last);
    if !earlier.is_empty() {
        let statuses = earlier.join(", ");
        parsed.problems.push(format!("read the last of {count} responses; before it: {statuses}"));
    }
    Ok(parsed)
}

/// Reads every response of a text, in order. Of more than 64 the last 64 are kept, and the last one
/// says so. Empty where there is no status line.
pub fn parse_all(text: &str) -> Vec<Parsed> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = if is_verbose(text) { Verbose::read(text) } else { plain(text) };
    found.all.drain(..found.all.len().saturating_sub(RESPONSE_CAP));
    let dropped = found.count.saturating_sub(found.all.len());
    if let (Some(last), 1..) = (found.all.last_mut(), dropped) {
        last.problems.push(format!("left out the first {dropped} of {} responses", found.count));
    }
    found.all
}

/// Responses as they come in: the last ones, and how many there were.
#[derive(Default)]
struct Found {
    all: Vec<Parsed>,
    count: usize,
}

impl Found {
    fn push(&mut self, parsed: Parsed) {
        // Dropped in bulk, so that a long chain costs no more than its length.
        if self.all.len() >= 2 * RESPONSE_CAP {
            self.all.drain(..RESPONSE_CAP);
        }
        self.count += 1;
        self.all.push(parsed);
    }
}

/// Status codes that announce another response to the same request.
fn is_interim(status: u16) -> bool {
    (100..200).contains(&status) && status != 101
}

/// Whether curl marked the received head with `< `.
fn is_verbose(text: &str) -> bool {
    text.lines().any(|line| marked(line, '<').is_some_and(|rest| StatusLine::read(rest).is_some()))
}

/// What stands behind curl's mark at the start of a line, also where a progress meter that ends
/// in a bare carriage return stands before it.
fn marked(line: &str, mark: char) -> Option<&str> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let line = line.rsplit('\r').next().unwrap_or(line);
    let rest = line.strip_prefix(mark)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix(' ') }
}

/// `HTTP/1.1 429 Too Many Requests` or `HTTP/2 429`.
struct StatusLine {
    version: String,
    status: u16,
    reason: Option<String>,
}

impl StatusLine {
    fn read(line: &str) -> Option<Self> {
        let line = line.trim_end();
        let version = line.split(' ').next().unwrap_or_default();
        let number = version.strip_prefix("HTTP/").or_else(|| version.strip_prefix("http/"))?;
        let shaped = matches!(number.len(), 1..=3)
            && number.chars().all(|c| c.is_ascii_digit() || c == '.')
            && number.starts_with(|c: char| c.is_ascii_digit());
        if !shaped {
            return None;
        }
        let rest = line.strip_prefix(version)?.trim_start();
        let code = rest.split([' ', '\t']).next().unwrap_or_default();
        if code.len() != 3 {
            return None;
        }
        let status: u16 = code.parse().ok().filter(|status| (100..1000).contains(status))?;
        let reason = rest.strip_prefix(code).map(str::trim).filter(|reason| !reason.is_empty());
        Some(Self {
            version: format!("HTTP/{number}"),
            status,
            reason: reason.map(|reason| reason.chars().take(200).collect()),
        })
    }
}

/// The head of a response while its lines come in.
#[derive(Default)]
struct Head {
    version: Option<String>,
    status: Option<u16>,
    reason: Option<String>,
    fields: Vec<(String, String)>,
    problems: Vec<String>,
    /// Whether fields beyond the cap were left out.
    is_cut: bool,
}

impl Head {
    fn new(line: StatusLine) -> Self {
        Self {
            version: Some(line.version),
            status: Some(line.status),
            reason: line.reason,
            ..Self::default()
        }
    }

    /// Takes one line of the head, without its line end.
    fn line(&mut self, line: &str) {
        if line.starts_with([' ', '\t']) {
            // Line folding (RFC 9112 section 5.2), obsolete but still met.
            if let Some((_, value)) = self.fields.last_mut() {
                if value.len() < VALUE_CAP {
                    value.push(' ');
                    value.extend(line.trim().chars().take(VALUE_CAP));
                }
                return;
            }
        }
        let Some((name, value)) = field(line) else {
            if self.problems.len() < 5 {
                let shown: String = line.chars().take(60).collect();
                self.problems
                    .push(format!("ignored a line in the head that is no field: {shown:?}"));
            }
            return;
        };
        if self.fields.len() < FIELD_CAP {
            self.fields.push((name.to_owned(), value.chars().take(VALUE_CAP).collect()));
        } else if !self.is_cut {
            self.is_cut = true;
            self.problems.push(format!("only the first {FIELD_CAP} header fields were read"));
        }
    }

    /// Puts the response together from the head and the text behind it.
    fn finish(self, body: Option<&str>, request: &RequestFacts) -> Parsed {
        let mut problems = self.problems;
        let headers: HeaderFields = self.fields.into_iter().collect();
        let is_head = request.method.as_deref() == Some("HEAD");
        let complete = is_whole_head(self.version.as_deref(), &headers);
        let body = Body::read(body, &headers, is_head, complete, &mut problems);
        Parsed {
            response: Response {
                status: self.status,
                reason: self.reason,
                version: self.version,
                headers_complete: complete,
                headers,
                body: body.text,
                body_complete: body.complete,
                request: request.clone(),
                ..Response::default()
            },
            problems,
        }
    }
}

/// A header field line: a token, a colon, a value. Also takes the pseudo-field form `:status`.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = match line.strip_prefix(':') {
        Some(rest) => {
            let (name, value) = rest.split_once(':')?;
            (name, value)
        }
        None => line.split_once(':')?,
    };
    let name = name.trim_end();
    let is_token = !name.is_empty()
        && name.len() <= 256
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    is_token.then(|| (name, value.trim()))
}

/// Whether a head looks like all that was sent, so that the absence of a field means something.
///
/// An HTTP/1.1 response says where its body ends: by `content-length`, by `transfer-encoding` or
/// by `connection: close` (RFC 9112 section 6.3). A head with none of them was shortened by hand.
/// The other versions end the body elsewhere, so a `date` or a length is asked for; a lone status
/// line with one field is an extract. `date` is not asked for in HTTP/1.1, since HAProxy's own
/// answers have none; a date and a length are all that a handler in Go sends without a body.
pub fn is_whole_head(version: Option<&str>, headers: &HeaderFields) -> bool {
    let closes = headers
        .all("connection")
        .any(|value| value.split(',').any(|option| option.trim().eq_ignore_ascii_case("close")));
    let framed = headers.has("content-length") || headers.has("transfer-encoding") || closes;
    let dated = headers.has("date");
    let others = headers.len() >= 3;
    match version {
        Some("HTTP/1.1") => framed && (others || dated),
        Some(_) => others && (dated || headers.has("content-length")),
        None => others && (dated || framed),
    }
}

/// The body text and whether it is all there.
struct Body {
    text: Option<String>,
    complete: bool,
}

impl Body {
    fn read(
        text: Option<&str>,
        headers: &HeaderFields,
        is_head: bool,
        whole_head: bool,
        problems: &mut Vec<String>,
    ) -> Self {
        let length = headers.get("content-length").and_then(|value| value.parse::<usize>().ok());
        let encoded = headers.get("content-encoding").is_some_and(|value| value != "identity");
        let text = text.unwrap_or_default();
        let bare = text.trim_end_matches(['\r', '\n']);
        if is_head || bare.is_empty() {
            let complete = !is_head
                && match length {
                    Some(length) => length == text.len() || length == 0,
                    None => whole_head && !headers.has("content-type") && !encoded,
                };
            return Self { text: complete.then(String::new), complete };
        }
        if let Some(whole) = headers
            .all("transfer-encoding")
            .any(|value| value.to_ascii_lowercase().contains("chunked"))
            .then(|| dechunk(text))
            .flatten()
        {
            return Self::capped(&whole, true, problems);
        }
        let complete = match length {
            None => true,
            // A decoded body has another length than the one that was sent.
            Some(_) if encoded => true,
            Some(length) => lengths(text).contains(&length),
        };
        if !complete && let Some(length) = length {
            if let Some((within, _)) = split_at(text, length)
                && text.len() > length
            {
                problems.push(format!("ignored the text behind the {length} bytes of the body"));
                return Self::capped(within, true, problems);
            }
            problems.push(format!(
                "the body has {} bytes where content-length says {length}",
                bare.len()
            ));
        }
        Self::capped(bare, complete, problems)
    }

    fn capped(text: &str, complete: bool, problems: &mut Vec<String>) -> Self {
        let text = text.trim_end_matches(['\r', '\n']);
        if text.len() <= BODY_CAP {
            return Self { text: Some(text.to_owned()), complete };
        }
        problems.push(format!("only the first {BODY_CAP} bytes of the body were read"));
        Self { text: Some(cut(text, BODY_CAP).to_owned()), complete: false }
    }
}

/// The lengths that a body may have had before a terminal or an editor changed its line ends.
fn lengths(text: &str) -> [usize; 4] {
    let bare = text.trim_end_matches(['\r', '\n']);
    let breaks = |text: &str| {
        let all = text.bytes().filter(|b| *b == b'\n').count();
        all.saturating_sub(text.matches("\r\n").count())
    };
    [
        text.len(),
        bare.len(),
        text.len().saturating_add(breaks(text)),
        bare.len().saturating_add(breaks(bare)),
    ]
}

/// The first `bytes` bytes of a text and the rest; `None` inside a character.
fn split_at(text: &str, bytes: usize) -> Option<(&str, &str)> {
    text.split_at_checked(bytes)
}

/// At most the first `bytes` bytes of a text, cut at a character.
pub(super) fn cut(text: &str, bytes: usize) -> &str {
    (0..4).find_map(|back| text.get(..bytes.min(text.len()).checked_sub(back)?)).unwrap_or_default()
}

/// Takes the chunk sizes (RFC 9112 section 7.1) out of a raw capture; `None` where the text is
/// not made of chunks from start to end.
fn dechunk(text: &str) -> Option<String> {
    let mut rest = text;
    let mut whole = String::new();
    loop {
        let (line, after) = rest.split_once('\n')?;
        let size = line.split(';').next().unwrap_or_default().trim();
        if size.is_empty() || size.len() > 8 {
            return None;
        }
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let (chunk, after) = split_at(after, size)?;
        whole.push_str(chunk);
        rest = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n'))?;
    }
}

/// Reads text without curl's marks.
fn plain(text: &str) -> Found {
    let mut request = RequestFacts::default();
    let mut rest = text;
    let mut found = Found::default();
    let mut in_request = false;
    // What stands before the first status line: a shell prompt with the command, or the request.
    let mut head = loop {
        let Some((line, after)) = next_line(rest) else { return found };
        rest = after;
        let trimmed = line.trim_start();
        if let Some(status) = StatusLine::read(trimmed) {
            break Head::new(status);
        }
        if let Some(value) = trimmed.strip_prefix(":status:")
            && let Some(status) = StatusLine::read(&format!("HTTP/2 {}", value.trim()))
        {
            break Head::new(status);
        }
        if request_line(trimmed, &mut request) {
            in_request = true;
        } else if in_request {
            request_field(trimmed, &mut request);
        } else {
            command(trimmed, &mut request);
        }
    };
    loop {
        let has_body = loop {
            match next_line(rest) {
                None => break false,
                Some((line, after)) => {
                    rest = after;
                    if line.is_empty() {
                        break true;
                    }
                    head.line(line);
                }
            }
        };
        if !has_body {
            found.push(head.finish(None, &request));
            return found;
        }
        let length = head
            .fields
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.parse::<usize>().ok());
        let (body, next) = split_responses(rest, length);
        found.push(head.finish(Some(body), &request));
        let Some((line, after)) = next else { return found };
        head = Head::new(line);
        rest = after;
    }
}

/// A line without its end, and the text behind it.
fn next_line(text: &str) -> Option<(&str, &str)> {
    if text.is_empty() {
        return None;
    }
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    Some((line.strip_suffix('\r').unwrap_or(line), rest))
}

/// Splits what follows a head into its body and the next response, where there is one: a status
/// line followed by a header field, behind the announced length if that many bytes are there.
fn split_responses(text: &str, length: Option<usize>) -> (&str, Option<(StatusLine, &str)>) {
    let sure = length.and_then(|length| split_at(text, length)).map_or(0, |(body, _)| body.len());
    let mut at = sure;
    while let Some((_, rest)) = split_at(text, at) {
        let Some((line, after)) = next_line(rest) else { break };
        if let Some(status) = StatusLine::read(line) {
            let next = next_line(after).map(|(line, _)| line);
            let is_head = next.is_none_or(|line| line.is_empty() || field(line).is_some());
            // A body that merely quotes a status line has text around it.
            if is_head && line.starts_with("HTTP/") {
                let body = split_at(text, at).map_or(text, |(body, _)| body);
                return (body, Some((status, after)));
            }
        }
        at = text.len().saturating_sub(after.len());
    }
    (text, None)
}

/// `GET /v1/orders?x=1 HTTP/1.1`
fn request_line(line: &str, request: &mut RequestFacts) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    let is_method =
        (3..=20).contains(&method.len()) && method.bytes().all(|b| b.is_ascii_uppercase());
    if !is_method || !version.starts_with("HTTP/") {
        return false;
    }
    *request = RequestFacts { method: Some(method.to_owned()), ..RequestFacts::default() };
    if method == "CONNECT" {
        request.host = host_of(target);
    } else if target.contains("://") {
        address(target, request);
    } else {
        request.path = Some(without_query(target));
    }
    true
}

fn request_field(line: &str, request: &mut RequestFacts) {
    if let Some((name, value)) = field(line)
        && request.headers.len() < FIELD_CAP
    {
        if name.eq_ignore_ascii_case("host") {
            request.host = host_of(value);
        }
        request.headers.push(name, cut(value, VALUE_CAP));
    }
}

/// Takes method and address from a `curl …` command that was pasted with its output.
fn command(line: &str, request: &mut RequestFacts) {
    let mut words = line.split_ascii_whitespace().skip_while(|word| *word != "curl").skip(1);
    while let Some(word) = words.next() {
        let word = word.trim_matches(['\'', '"']);
        if word == "-X" || word == "--request" {
            request.method = words.next().map(str::to_ascii_uppercase);
        } else if word == "-I" || word == "--head" {
            request.method = Some("HEAD".to_owned());
        } else if word.starts_with("https://") || word.starts_with("http://") {
            address(word, request);
        }
    }
}

/// Takes host and path from an absolute address.
pub(crate) fn address(url: &str, request: &mut RequestFacts) {
    let Some((scheme, rest)) = url.split_once("://") else { return };
    let authority::Parts { host, tail: path, .. } = authority::split(Some(scheme), rest);
    let port = if scheme.eq_ignore_ascii_case("http") { ":80" } else { ":443" };
    request.host = host_of(host.strip_suffix(port).unwrap_or(host));
    request.path = Some(if path.starts_with('/') { without_query(path) } else { "/".to_owned() });
}

/// A host in lower case, without the default port of HTTPS.
pub(super) fn host_of(text: &str) -> Option<String> {
    let host = text.trim().trim_end_matches('.').to_ascii_lowercase();
    let host = host.strip_suffix(":443").or_else(|| host.strip_suffix(":80")).unwrap_or(&host);
    (!host.is_empty() && host.len() <= 300).then(|| host.to_owned())
}

/// A path without query and fragment.
pub(super) fn without_query(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    cut(path, 2048).to_owned()
}

/// Reads the output of `curl -v`.
#[derive(Default)]
struct Verbose<'a> {
    request: RequestFacts,
    tunnel: bool,
    head: Option<Head>,
    in_head: bool,
    last_marked: &'a str,
    body: String,
    found: Found,
}

impl<'a> Verbose<'a> {
    fn read(text: &'a str) -> Found {
        let mut this = Self::default();
        for line in text.split_inclusive('\n') {
            this.line(line);
        }
        this.flush();
        this.found
    }

    fn line(&mut self, line: &'a str) {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let content = content.strip_suffix('\r').unwrap_or(content);
        if let Some(rest) = marked(content, '<') {
            self.received(rest.trim_end());
        } else if let Some(rest) = marked(content, '>') {
            self.sent(rest.trim_end());
        } else if let Some(note) = marked(content, '*') {
            self.note(note);
        } else if !is_transfer_note(content) {
            self.other(line, content);
        }
    }

    /// A line of a response's head.
    fn received(&mut self, rest: &'a str) {
        if let Some(status) = StatusLine::read(rest) {
            self.flush();
            self.head = Some(Head::new(status));
            self.in_head = true;
        } else if self.in_head {
            if rest.is_empty() {
                self.in_head = false;
            } else if let Some(head) = &mut self.head {
                head.line(rest);
            }
        }
        self.last_marked = rest;
    }

    /// A line of a request's head.
    fn sent(&mut self, rest: &str) {
        if self.head.is_some() {
            self.flush();
        }
        let host = self.request.host.take();
        if request_line(rest, &mut self.request) {
            self.tunnel = self.request.method.as_deref() == Some("CONNECT");
        } else {
            request_field(rest, &mut self.request);
        }
        if self.request.host.is_none() {
            self.request.host = host;
        }
    }

    /// One of curl's own notes.
    fn note(&mut self, note: &str) {
        // * [HTTP/2] [1] [:authority: api.example.com]
        if let Some((_, rest)) = note.split_once("[:authority: ") {
            self.request.host = host_of(rest.trim_end_matches(']'));
        }
    }

    /// A line without a mark: the body, or the head once more where `-i` was given too.
    fn other(&mut self, line: &str, content: &str) {
        if self.head.is_none() {
            command(content.trim_start(), &mut self.request);
            return;
        }
        if self.in_head {
            return;
        }
        // With -i the blank line and the last fields are printed a second time.
        if self.body.is_empty() && (content.is_empty() || content == self.last_marked) {
            return;
        }
        if self.body.len() <= BODY_CAP.saturating_mul(2) {
            self.body.push_str(line);
        }
    }

    fn flush(&mut self) {
        let body = std::mem::take(&mut self.body);
        self.in_head = false;
        if let Some(head) = self.head.take() {
            self.found.push(head.finish(Some(without_notes(&body)), &self.request));
        }
    }
}

/// `{ [31 bytes data]`, `} [5 bytes data]` and the progress meter.
fn is_transfer_note(line: &str) -> bool {
    let line = line.rsplit('\r').next().unwrap_or(line);
    let is_data =
        (line.starts_with("{ [") || line.starts_with("} [")) && line.ends_with("bytes data]");
    let trimmed = line.trim_start();
    let is_meter = trimmed.starts_with("% Total")
        || trimmed.starts_with("Dload  Upload")
        || (trimmed.contains("--:--:--") && trimmed.starts_with(|c: char| c.is_ascii_digit()));
    is_data || is_meter
}

/// Cuts the note that curl writes right behind a body without a line end.
fn without_notes(body: &str) -> &str {
    const NOTES: [&str; 5] = [
        "* Connection #",
        "* Closing connection",
        "* Curl_http_done",
        "* HTTP error before end",
        "* TLSv1",
    ];
    NOTES
        .iter()
        .filter_map(|note| body.split_once(note))
        .map(|(before, _)| before)
        .min_by_key(|before| before.len())
        .unwrap_or(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Response {
        parse(text).unwrap().response
    }

    const BARE: &str = "HTTP/1.1 429 Too Many Requests\r\nServer: edge\r\nContent-Length: 31\r\n\
                        Date: Wed, 11 Nov 2026 07:29:00 GMT\r\n\r\n{\"message\":\"Too Many Requests\"}";

    #[test]
    fn lf_and_crlf_read_the_same() {
        assert_eq!(one(BARE), one(&BARE.replace("\r\n", "\n")));
        let response = one(BARE);
        assert_eq!(response.status, Some(429));
        assert_eq!(response.reason.as_deref(), Some("Too Many Requests"));
        assert_eq!(response.version.as_deref(), Some("HTTP/1.1"));
        assert_eq!(response.headers.get("server"), Some("edge"));
        assert_eq!(response.body.as_deref(), Some("{\"message\":\"Too Many Requests\"}"));
        assert!(response.headers_complete && response.body_complete);
    }

    #[test]
    fn http_2_has_no_reason() {
        let response = one("HTTP/2 429 \nretry-after: 14\n\n");
        assert_eq!((response.status, response.reason), (Some(429), None));
        assert!(!response.headers_complete, "one field is an extract");
    }

    #[test]
    fn a_head_without_framing_is_an_extract() {
        let cut = one("HTTP/1.1 429 Too Many Requests\nServer: a\nDate: b\nX-A: c\n\nhello");
        assert!(!cut.headers_complete);
        let haproxy =
            one("HTTP/1.1 429 Too Many Requests\ncontent-length: 117\ncache-control: no-cache\n\
             content-type: text/html\n\n");
        assert!(haproxy.headers_complete, "no date, yet whole");
        assert!(!haproxy.body_complete && haproxy.body.is_none());
    }

    #[test]
    fn verbose_output_gives_the_request_too() {
        let text = "* Host api.example.com:443 was resolved.\n\
            * [HTTP/2] [1] [:authority: api.example.com]\n\
            > POST /v1/orders?key=1 HTTP/2\n> Host: api.example.com\n> User-Agent: curl/8.5.0\n> \n\
            } [12 bytes data]\n< HTTP/2 429 \n< content-type: application/json\n\
            < content-length: 9\n< date: x\n< \n{ [9 bytes data]\n{\"a\":\"b\"}* Connection #0 to host api.example.com left intact\n";
        let response = one(text);
        assert_eq!(response.request.method.as_deref(), Some("POST"));
        assert_eq!(response.request.host.as_deref(), Some("api.example.com"));
        assert_eq!(response.request.path.as_deref(), Some("/v1/orders"));
        assert_eq!(response.request.headers.get("user-agent"), Some("curl/8.5.0"));
        assert_eq!(response.body.as_deref(), Some("{\"a\":\"b\"}"));
        assert!(response.body_complete, "{response:?}");
    }

    #[test]
    fn a_progress_meter_before_the_mark_is_no_obstacle() {
        let text = "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0\
                    < HTTP/1.1 429 Too Many Requests\r\n< Retry-After: 3\r\n< \r\n";
        let text = text.replace("0< HTTP", "0\r< HTTP");
        assert_eq!(one(&text).headers.get("retry-after"), Some("3"));
    }

    #[test]
    fn the_last_final_response_is_read() {
        let text = "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n\
            HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n\
            HTTP/1.1 429 Too Many Requests\r\nRetry-After: 5\r\n\r\nslow down";
        let parsed = parse(text).unwrap();
        assert_eq!(parsed.response.status, Some(429));
        assert_eq!(parsed.response.body.as_deref(), Some("slow down"));
        assert!(parsed.problems.iter().any(|p| p.contains("200, 100, 302")), "{parsed:?}");
        assert_eq!(parse_all(text).len(), 4);
    }

    #[test]
    fn of_a_long_chain_the_last_response_is_read_and_said() {
        let hop = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n";
        let text = format!("{}HTTP/1.1 429 X\r\nRetry-After: 5\r\n\r\n", hop.repeat(300));
        let verbose = format!("< {}\n", text.replace("\r\n", "\r\n< "));
        for text in [text, verbose] {
            let all = parse_all(&text);
            assert_eq!(all.len(), 64);
            let parsed = parse(&text).unwrap();
            assert_eq!(parsed.response.status, Some(429));
            assert!(
                parsed.problems.iter().any(|p| p.contains("the first 237 of 301")),
                "{parsed:?}"
            );
        }
    }

    #[test]
    fn fields_beyond_the_cap_are_said_once() {
        let text = format!("HTTP/1.1 429 X\r\n{}\r\n", "X-A: 1\r\n".repeat(600));
        let parsed = parse(&text).unwrap();
        let said = parsed.problems.iter().filter(|p| p.contains("header fields")).count();
        assert_eq!((said, parsed.response.headers.iter().count()), (1, 512));
    }

    #[test]
    fn a_body_that_quotes_a_status_line_stays_a_body() {
        let text = "HTTP/1.1 429 Too Many Requests\n\nHTTP/1.1 200 OK means success.\nBye.";
        assert_eq!(parse_all(text).len(), 1);
        let text = "HTTP/1.1 429 X\nContent-Length: 34\n\nHTTP/1.1 200 OK\nserver: cloudflare\n";
        assert_eq!(one(text).status, Some(429));
    }

    #[test]
    fn folded_fields_are_joined() {
        let response = one("HTTP/1.1 429 X\nX-Long: one\n  two\n\tthree\nServer: a\n");
        assert_eq!(response.headers.get("x-long"), Some("one two three"));
        assert_eq!(response.headers.get("server"), Some("a"));
    }

    #[test]
    fn chunk_sizes_are_taken_out() {
        let text = "HTTP/1.1 429 X\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n";
        assert_eq!(one(text).body.as_deref(), Some("hello world"));
        let plain = "HTTP/1.1 429 X\r\nTransfer-Encoding: chunked\r\n\r\nhello";
        assert_eq!(one(plain).body.as_deref(), Some("hello"));
    }

    #[test]
    fn text_without_a_status_line_says_what_was_expected() {
        let error = parse("server: cloudflare\nretry-after: 30\n").unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("HTTP/2 429") && message.contains("server: cloudflare"),
            "{message}"
        );
        assert_eq!(parse(" \n\r\n"), Err(ResponseError::Empty));
    }

    #[test]
    fn a_pasted_command_names_the_host() {
        let text = "$ curl -i -X POST 'https://user:pw@API.example.com:443/v1/x?token=1'\nHTTP/2 429\ndate: x\n";
        let request = one(text).request;
        assert_eq!(request.host.as_deref(), Some("api.example.com"));
        assert_eq!(request.path.as_deref(), Some("/v1/x"));
        assert_eq!(request.method.as_deref(), Some("POST"));
    }

    #[test]
    fn a_huge_body_is_cut_and_said_so() {
        let text = format!("HTTP/2 429\ncontent-type: text/plain\n\n{}", "é".repeat(BODY_CAP));
        let parsed = parse(&text).unwrap();
        assert_eq!(parsed.response.body.unwrap().len(), BODY_CAP);
        assert!(!parsed.response.body_complete && !parsed.problems.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(HTTP/[12](\\.1)? [1-5][0-9]{2}|[<>*] |[a-z-]{1,9}: |\r?\n|[0-9a-f]{1,8}\r\n|\\PC){0,60}") {
            for parsed in parse_all(&text) {
                proptest::prop_assert!(parsed.response.status.is_some());
            }
        }
    }
}
