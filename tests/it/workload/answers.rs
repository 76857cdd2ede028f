//! What each make of gateway puts into its answers: the header fields that a client keeps of them,
//! and the body of a refusal. Shapes are those of `tests/data/responses`.

use super::START_MS;
use super::dice::Dice;
use super::fleet::{Front, Upstream};
use super::line::{digits, hex, http_date, retry_after, uuid};
use super::story::{Attempt, Ending, Promise};

/// A refusal's body as text inside JSON, and the error code in it.
struct Refusal {
    media_type: &'static str,
    body: &'static str,
    error_code: Option<&'static str>,
}

impl Front {
    fn refusal(self) -> Refusal {
        let (media_type, body, error_code) = match self {
            Self::Cloudflare => ("text/plain; charset=UTF-8", "error code: 1015", None),
            Self::CloudflareOrigin | Self::Origin => (
                "application/json",
                r#"{\"error\":{\"code\":\"rate_limited\",\"message\":\"Too many requests for this key.\"}}"#,
                Some("rate_limited"),
            ),
            Self::ApiGateway => {
                ("application/json", r#"{\"message\":\"Too Many Requests\"}"#, None)
            }
            Self::EnvoyLocal => ("text/plain", "local_rate_limited", None),
            Self::EnvoyGlobal => ("text/plain", "", None),
            Self::Nginx => (
                "text/html",
                r"<html>\r\n<head><title>429 Too Many Requests</title></head>\r\n<body>\r\n<center><h1>429 Too Many Requests</h1></center>\r\n<hr><center>nginx/1.24.0</center>\r\n</body>\r\n</html>\r\n",
                None,
            ),
            Self::HaProxy => (
                "text/html",
                r"<html><body><h1>429 Too Many Requests</h1>\nYou have sent too many requests in a given amount of time.\n</body></html>\n",
                None,
            ),
            Self::Kong => (
                "application/json; charset=utf-8",
                r#"{\"message\":\"API rate limit exceeded\"}"#,
                None,
            ),
            Self::Fastly => ("text/plain", "Too many requests", None),
            Self::Express => {
                ("text/html; charset=utf-8", "Too many requests, please try again later.", None)
            }
            Self::Models => (
                "application/json",
                r#"{\"error\":{\"message\":\"Rate limit reached for requests\",\"type\":\"requests\",\"param\":null,\"code\":\"rate_limit_exceeded\"}}"#,
                Some("rate_limit_exceeded"),
            ),
        };
        Refusal { media_type, body, error_code }
    }
}

/// Status, ids, header fields and body of what came back, as fields of JSON.
pub(super) fn write(out: &mut String, attempt: &Attempt, upstream: &Upstream, dice: &mut Dice) {
    let front = upstream.front;
    let ids = dice.clone();
    out.push_str(r#","request_id":""#);
    uuid(out, &mut ids.clone());
    out.push('"');
    let status = match attempt.ending {
        Ending::Served => 200,
        Ending::Limited(_) => 429,
        Ending::Status(status) => status,
        Ending::Error(_) => return,
    };
    out.push_str(r#","status":"#);
    digits(out, status.into());
    let refusal = matches!(attempt.ending, Ending::Limited(_)).then(|| front.refusal());
    dice.next();
    dice.next();
    let ray = dice.next();
    if matches!(front, Front::Cloudflare | Front::CloudflareOrigin) {
        out.push_str(r#","ray_id":""#);
        hex::<16>(out, ray);
        out.push_str(r#"-FRA""#);
    }

    let mut headers = Headers::new(out);
    headers.put("date", |out| http_date(out, attempt.answered_ms()));
    let media_type = refusal.as_ref().map_or("application/json", |refusal| refusal.media_type);
    headers.text("content-type", media_type);
    headers.of_front(attempt, upstream, refusal.is_some(), &ids, ray);
    if let Ending::Limited(promise) = attempt.ending
        && promise != Promise::None
    {
        headers.put("retry-after", |out| retry_after(out, promise, attempt));
    }
    headers.end();

    if let Some(refusal) = refusal {
        if let Some(code) = refusal.error_code {
            out.push_str(r#","error_code":""#);
            out.push_str(code);
            out.push('"');
        }
        if !refusal.body.is_empty() {
            out.push_str(r#","body_sample":""#);
            out.push_str(refusal.body);
            out.push('"');
        }
    } else if matches!(status, 400..) {
        out.push_str(r#","body_sample":"{\"error\":\"the request could not be answered\"}""#);
    }
}

/// The `headers` of an event.
struct Headers<'o> {
    out: &'o mut String,
    is_first: bool,
}

impl<'o> Headers<'o> {
    fn new(out: &'o mut String) -> Self {
        out.push_str(r#","headers":{"#);
        Self { out, is_first: true }
    }

    fn put(&mut self, name: &str, value: impl FnOnce(&mut String)) {
        self.out.push_str(if self.is_first { "\"" } else { ",\"" });
        self.is_first = false;
        self.out.push_str(name);
        self.out.push_str(r#"":""#);
        value(self.out);
        self.out.push('"');
    }

    fn text(&mut self, name: &str, value: &str) {
        self.put(name, |out| out.push_str(value));
    }

    fn number(&mut self, name: &str, value: u32) {
        self.put(name, |out| digits(out, value));
    }

    /// A limit per minute: what is allowed, what is left, and seconds until it is full again.
    fn limit(&mut self, names: [&str; 3], attempt: &Attempt, limit: u32, is_refusal: bool) {
        let [allowed, left, reset] = names;
        self.number(allowed, limit);
        let spread = attempt.sent_ms / 7 % limit;
        self.number(left, if is_refusal { 0 } else { limit - spread });
        self.number(reset, 60 - attempt.answered_ms() / 1_000 % 60);
    }

    /// What the make of the gateway adds.
    fn of_front(
        &mut self,
        attempt: &Attempt,
        upstream: &Upstream,
        is_refusal: bool,
        ids: &Dice,
        ray: u64,
    ) {
        let front = upstream.front;
        match front {
            Front::Cloudflare | Front::CloudflareOrigin => {
                self.text("server", "cloudflare");
                self.put("cf-ray", |out| {
                    hex::<16>(out, ray);
                    out.push_str("-FRA");
                });
                if front == Front::Cloudflare && is_refusal {
                    self.text("cache-control", "private, max-age=0, no-store, no-cache");
                } else {
                    self.text("cf-cache-status", "DYNAMIC");
                }
                if front == Front::CloudflareOrigin {
                    self.limit(RATELIMIT, attempt, upstream.limit, is_refusal);
                }
            }
            Front::ApiGateway => {
                self.put("x-amzn-requestid", |out| uuid(out, &mut ids.clone()));
                self.put("x-amz-apigw-id", |out| {
                    hex::<15>(out, ray);
                    out.push('=');
                });
                if is_refusal {
                    self.text("x-amzn-errortype", "TooManyRequestsException");
                } else {
                    self.put("x-amzn-trace-id", |out| {
                        out.push_str("Root=1-");
                        hex::<8>(out, seconds(attempt).into());
                        out.push('-');
                        hex::<12>(out, ray);
                        hex::<12>(out, ray.rotate_left(20));
                    });
                }
            }
            Front::EnvoyLocal | Front::EnvoyGlobal => {
                self.text("server", "envoy");
                self.put("x-request-id", |out| uuid(out, &mut ids.clone()));
                if is_refusal && front == Front::EnvoyGlobal {
                    self.text("x-envoy-ratelimited", "true");
                } else if !is_refusal {
                    self.number("x-envoy-upstream-service-time", attempt.duration_ms);
                }
                self.limit(X_RATELIMIT, attempt, upstream.limit, is_refusal);
            }
            Front::Nginx => {
                self.text("server", "nginx/1.24.0");
                if !is_refusal {
                    self.text("vary", "Accept-Encoding");
                    self.text("x-powered-by", "PHP/8.2.7");
                }
            }
            Front::HaProxy => {
                self.text("cache-control", "no-cache");
                if !is_refusal {
                    self.text("server", "gunicorn");
                }
            }
            Front::Kong => {
                self.text("server", "kong/3.8.0");
                self.put("x-kong-request-id", |out| {
                    hex::<16>(out, ray);
                    hex::<16>(out, ray.rotate_left(24));
                });
                if is_refusal {
                    self.number("x-kong-response-latency", attempt.duration_ms / 4);
                } else {
                    self.number("x-kong-upstream-latency", attempt.duration_ms);
                    self.number("x-kong-proxy-latency", 1 + attempt.duration_ms % 3);
                    self.text("via", "1.1 kong/3.8.0");
                }
                self.number("x-ratelimit-limit-minute", upstream.limit);
                self.limit(RATELIMIT, attempt, upstream.limit, is_refusal);
            }
            Front::Fastly => {
                self.text("x-served-by", "cache-fra-etou8220010-FRA");
                self.put("x-timer", |out| {
                    out.push('S');
                    digits(out, seconds(attempt));
                    out.push_str(if is_refusal { ".410000,VS0,VE0" } else { ".410000,VS0,VE41" });
                });
                self.text("x-cache", if is_refusal { "HIT" } else { "MISS" });
                self.text("x-cache-hits", "0");
                self.text("via", "1.1 varnish");
            }
            Front::Express => {
                self.text("x-powered-by", "Express");
                self.put("ratelimit-policy", |out| {
                    digits(out, upstream.limit);
                    out.push_str(";w=60");
                });
                self.limit(RATELIMIT, attempt, upstream.limit, is_refusal);
            }
            Front::Origin => {
                self.text("server", "uvicorn");
                self.put("x-request-id", |out| uuid(out, &mut ids.clone()));
                self.limit(X_RATELIMIT, attempt, upstream.limit, is_refusal);
            }
            Front::Models => {
                self.put("x-request-id", |out| {
                    out.push_str("req_");
                    hex::<16>(out, ray);
                });
                let limit = upstream.limit;
                self.limit(X_RATELIMIT_REQUESTS, attempt, limit, is_refusal);
                self.number("x-ratelimit-limit-tokens", limit * 2_000);
                self.number(
                    "x-ratelimit-remaining-tokens",
                    limit * 2_000 - attempt.sent_ms % 90_000,
                );
            }
        }
    }

    fn end(self) {
        self.out.push('}');
    }
}

const RATELIMIT: [&str; 3] = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
const X_RATELIMIT: [&str; 3] = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
const X_RATELIMIT_REQUESTS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];

/// Seconds since 1970 when the answer came.
fn seconds(attempt: &Attempt) -> u32 {
    u32::try_from(START_MS / 1_000).unwrap() + attempt.answered_ms() / 1_000
}
