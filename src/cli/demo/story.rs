//! The demo's story: an hour of made-up traffic whose causes are known, as native events.
//!
//! A pure function of its end and a seed, so that a test can hold the triage to the truth. The
//! limits are simulated rather than painted: what is refused, and when, follows from the traffic.
//!
//! - `checkout` at `api.example.com`: a CDN's rate rule (50 a minute, from the first request on)
//!   refuses one of two keys, whose batches come all at once; its callers wait exactly `Retry-After`
//!   and come back together. Twenty minutes before the end the batches are spaced, which is marked.
//! - `storefront` at `api.example.com`: behind the same CDN, the application itself refuses; its
//!   own record proves it. This client behaves.
//! - `catalog-sync` at `catalog.example.net`: SDK (3 tries) and application (4 rounds) both retry,
//!   without jitter.
//! - `billing`, `notifier`, `importer`: writes without a steady idempotency key, a cap below the
//!   promised wait, seconds taken for milliseconds.

use crate::domain::http_date;
use crate::domain::time::{MINUTE_MS, Millis, UnixMillis};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// Length of the story in minutes.
pub const MINUTES: i64 = 60;
/// The minute at which `checkout` begins to send in batches.
const BATCHES_FROM: i64 = 20;
/// The minute at which the marked change takes effect.
pub const CHANGE_MINUTE: i64 = 40;

/// An hour of traffic and what was changed in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Story {
    /// Its first moment, a whole minute.
    pub from: UnixMillis,
    /// The first moment after it.
    pub to: UnixMillis,
    /// Native events (DESIGN 4) in the order they were sent.
    pub events: Vec<Value>,
    /// When the change took effect.
    pub changed_at: UnixMillis,
    /// What was changed at `checkout`.
    pub change: &'static str,
    /// An operation of `catalog-sync` that was sent as often as its two layers allow.
    pub longest_operation: String,
}

/// Tells the story of the hour before `end`, cut to the minute.
pub fn tell(end: UnixMillis, seed: u64) -> Story {
    let to = end.floor_to(MINUTE_MS);
    let from = to.plus(Millis(-MINUTES * MINUTE_MS));
    let mut teller = Teller { from, random: Random(seed), events: Vec::new(), serial: 0 };
    teller.checkout();
    teller.storefront();
    let longest_operation = teller.catalog_sync();
    teller.billing();
    teller.notifier();
    teller.importer();
    let mut events = teller.events;
    events.sort_by_key(|(at, serial, _)| (*at, *serial));
    Story {
        from,
        to,
        events: events.into_iter().map(|(_, _, event)| event).collect(),
        changed_at: from.plus(Millis(CHANGE_MINUTE * MINUTE_MS)),
        change: "checkout spaces its batches: a request every 1.6 s",
        longest_operation,
    }
}

/// Steady pseudo-random numbers (`SplitMix64`), the same everywhere for one seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to below `high`.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        let width = u64::try_from(high.saturating_sub(low)).unwrap_or(0).max(1);
        low.saturating_add(i64::try_from(self.next() % width).unwrap_or(0))
    }
}

/// A window that begins with its first request and lasts a minute.
struct FixedWindow {
    allowed: i64,
    ends_at: i64,
    used: i64,
    on_clock: bool,
}

impl FixedWindow {
    const fn new(allowed: i64, on_clock: bool) -> Self {
        Self { allowed, ends_at: i64::MIN, used: 0, on_clock }
    }

    /// What is left after serving a request at `at`, or the seconds to wait, rounded up.
    fn take(&mut self, at: i64) -> Result<i64, i64> {
        if at >= self.ends_at {
            let start = if self.on_clock { at.div_euclid(MINUTE_MS) * MINUTE_MS } else { at };
            self.ends_at = start + MINUTE_MS;
            self.used = 0;
        }
        if self.used < self.allowed {
            self.used += 1;
            return Ok(self.allowed - self.used);
        }
        Err((self.ends_at - at + 999).div_euclid(1000).max(1))
    }
}

/// Work to send: (when, operation, attempt).
type Due = (i64, usize, u32);

struct Teller {
    from: UnixMillis,
    random: Random,
    events: Vec<(i64, u64, Value)>,
    serial: u64,
}

impl Teller {
    /// Milliseconds since 1970 of a minute of the story.
    fn minute(&self, minute: i64) -> i64 {
        self.from.plus(Millis(minute * MINUTE_MS)).0
    }

    /// Adds an event; `fields` win over what every event has.
    fn add(&mut self, at: i64, fields: Value) {
        self.serial += 1;
        let mut event = Map::new();
        event.insert("event_id".to_owned(), json!(format!("demo-{:06}", self.serial)));
        event.insert("occurred_at".to_owned(), json!(UnixMillis(at).to_rfc3339()));
        event.insert("environment".to_owned(), json!("prod"));
        if let Value::Object(fields) = fields {
            event.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
        }
        self.events.push((at, self.serial, Value::Object(event)));
    }

    /// Served traffic in bulk: one event a minute and instance, `each` attempts in it.
    fn bulk(
        &mut self,
        minutes: std::ops::Range<i64>,
        instances: (&str, i64),
        each: i64,
        fields: &Value,
    ) {
        for minute in minutes {
            for instance in 1..=instances.1 {
                let at = self.minute(minute) + self.random.between(0, MINUTE_MS);
                let count = self.random.between(each * 9 / 10, each * 11 / 10 + 1).max(1);
                let mut event = json!({
                    "instance": format!("{}-{instance}", instances.0), "status": 200,
                    "count": count, "duration_ms": self.random.between(60, 140),
                    "outcome": "succeeded",
                });
                merge(&mut event, fields);
                self.add(at, event);
            }
        }
    }

    /// Sends operations that arrive at `first`, each attempt by `send`, which says after how many
    /// milliseconds the next one is due.
    fn run(&mut self, first: Vec<i64>, mut send: impl FnMut(&mut Self, Due) -> Option<i64>) {
        let mut due: BTreeSet<Due> =
            first.into_iter().enumerate().map(|(n, at)| (at, n, 1)).collect();
        while let Some((at, operation, attempt)) = due.pop_first() {
            if let Some(delay) = send(self, (at, operation, attempt)) {
                due.insert((at + delay, operation, attempt + 1));
            }
        }
    }

    /// Moments spread at random, `each` a minute.
    fn arrivals(&mut self, minutes: std::ops::Range<i64>, each: i64) -> Vec<i64> {
        let mut moments = Vec::new();
        for minute in minutes {
            let start = self.minute(minute);
            moments.extend((0..each).map(|_| start + self.random.between(0, MINUTE_MS)));
        }
        moments.sort_unstable();
        moments
    }

    fn hex(&mut self) -> String {
        format!("{:016x}", self.random.next())
    }

    /// One key, refused by the CDN's rule; the other key is not concerned.
    fn checkout(&mut self) {
        const PODS: (&str, i64) = ("pod", 3);
        let call = |key: &str, method: &str, route: &str| {
            json!({
                "service": "checkout", "host": "api.example.com", "method": method, "route": route,
                "key_hash": hash(key), "key_kind": "api-key",
                "client_address_hash": hash("203.0.113.7"),
            })
        };
        let orders = call("checkout batch key", "POST", "/v1/orders");
        let stock = call("checkout batch key", "GET", "/v1/stock/{sku}");
        for (route, each) in [("/v1/orders", 20), ("/v1/stock/{sku}", 30)] {
            let method = if route == "/v1/orders" { "POST" } else { "GET" };
            self.bulk(0..MINUTES, PODS, each, &call("checkout interactive key", method, route));
        }
        self.bulk(CHANGE_MINUTE..MINUTES, PODS, 12, &orders);
        let mut arrivals = Vec::new();
        for batch in 0..7 {
            let start = self.minute(BATCHES_FROM) + batch * 170_000 + 23_400;
            arrivals.extend((0..106).map(|n| start + n * 180 + self.random.between(0, 180)));
        }
        let end = self.minute(CHANGE_MINUTE);
        let mut rule = FixedWindow::new(50, false);
        self.run(arrivals, |t, (at, operation, attempt)| {
            let ray = format!("{}-FRA", t.hex());
            let is_write = operation % 3 > 0;
            let id = format!("batch-{operation:05}");
            let mut event = json!({
                "operation_id": id, "attempt": attempt, "attempts_max": 3, "timeout_ms": 5000,
                "deadline_ms": 180_000, "instance": format!("pod-{}", operation % 3 + 1),
                "idempotency_key_hash": is_write.then(|| hash(&format!("key of {id}"))),
                "body_hash": is_write.then(|| hash(&format!("body of {id}"))),
                "retry_layer": (attempt > 1).then_some("app"),
            });
            merge(&mut event, if is_write { &orders } else { &stock });
            match rule.take(at) {
                Ok(_) => {
                    let took = t.random.between(90, 240);
                    let request_id = format!("req_{}", t.hex());
                    let status = if is_write { 201 } else { 200 };
                    merge(&mut event, &json!({
                        "status": status, "duration_ms": took, "outcome": "succeeded",
                        "headers": {"server": "cloudflare", "cf-ray": ray,
                            "cf-cache-status": "DYNAMIC", "date": date(at + took),
                            "x-request-id": request_id},
                    }));
                    let route = event.get("route").cloned();
                    t.add(at, event);
                    t.add(at + 6, json!({
                        "vantage": "origin", "service": "checkout", "host": "api.example.com",
                        "route": route, "status": status, "duration_ms": took - 20,
                        "request_id": request_id, "ray_id": ray, "instance": "orders-api-1",
                    }));
                    None
                }
                Err(wait_s) => {
                    let took = t.random.between(9, 26);
                    let delay = wait_s * 1000;
                    let goes_on = attempt < 3 && at + delay < end;
                    merge(&mut event, &json!({
                        "status": 429, "duration_ms": took, "retry_after": wait_s.to_string(),
                        "outcome": if goes_on { "retrying" } else { "exhausted" },
                        "computed_delay_ms": goes_on.then_some(delay),
                        "delay_source": goes_on.then_some("retry-after"),
                        "layer": "edge", "body_sample": "error code: 1015",
                        "headers": {"server": "cloudflare", "cf-ray": ray, "date": date(at + took),
                            "content-type": "text/plain; charset=UTF-8",
                            "retry-after": wait_s.to_string(),
                            "cache-control": "private, max-age=0, no-store, no-cache, must-revalidate"},
                    }));
                    t.add(at, event);
                    goes_on.then(|| took + delay + t.random.between(2, 9))
                }
            }
        });
    }

    /// The application refuses behind the same CDN, and says so in its own record. The client waits
    /// at least as long as asked, with jitter.
    fn storefront(&mut self) {
        const WEB: (&str, i64) = ("web", 3);
        let search = json!({
            "service": "storefront", "host": "api.example.com", "method": "GET",
            "route": "/v1/search", "key_hash": hash("storefront key"), "key_kind": "api-key",
            "client_address_hash": hash("203.0.113.20"), "priority": "interactive",
        });
        self.bulk(0..22, WEB, 16, &search);
        self.bulk(34..MINUTES, WEB, 16, &search);
        self.bulk(
            0..MINUTES,
            WEB,
            40,
            &json!({
                "service": "storefront", "host": "api.example.com", "method": "GET",
                "route": "/v1/products/{id}", "key_hash": hash("storefront key"),
                "key_kind": "api-key", "client_address_hash": hash("203.0.113.20"),
            }),
        );
        let arrivals = self.arrivals(22..34, 66);
        let mut limiter = FixedWindow::new(60, true);
        self.run(arrivals, |t, (at, operation, attempt)| {
            let ray = format!("{}-FRA", t.hex());
            let request_id = format!("req_{}", t.hex());
            let inside = t.random.between(18, 60);
            let took = inside + t.random.between(6, 14);
            let taken = limiter.take(at);
            let (left, reset) = match taken {
                Ok(left) => (left, (limiter.ends_at - at + 999) / 1000),
                Err(wait_s) => (0, wait_s),
            };
            let mut event = json!({
                "operation_id": format!("search-{operation:05}"), "attempt": attempt,
                "attempts_max": 2, "timeout_ms": 2000, "deadline_ms": 120_000,
                "instance": format!("web-{}", operation % 3 + 1), "request_id": request_id,
                "retry_layer": (attempt > 1).then_some("http-client"), "duration_ms": took,
                "headers": {"server": "cloudflare", "cf-ray": ray, "cf-cache-status": "DYNAMIC",
                    "date": date(at + took), "content-type": "application/json",
                    "server-timing": format!("cfEdge;dur={},cfOrigin;dur={inside}", took - inside),
                    "x-request-id": request_id, "ratelimit-policy": "\"search\";q=60;w=60",
                    "ratelimit": format!("\"search\";r={left};t={reset}")},
            });
            merge(&mut event, &search);
            let Err(wait_s) = taken else {
                merge(&mut event, &json!({"status": 200, "outcome": "succeeded"}));
                t.add(at, event);
                return None;
            };
            let delay = wait_s * 1000 + t.random.between(500, 50_000);
            let goes_on = attempt < 2;
            merge(
                &mut event,
                &json!({
                    "status": 429, "retry_after": wait_s.to_string(), "error_code": "rate_limited",
                    "outcome": if goes_on { "retrying" } else { "exhausted" },
                    "computed_delay_ms": goes_on.then_some(delay),
                    "delay_source": goes_on.then_some("retry-after with jitter"),
                    "body_sample": "{\"error\":{\"code\":\"rate_limited\",\"message\":\
                        \"search allows 60 requests a minute for one key\"}}",
                }),
            );
            if let Some(headers) = event.get_mut("headers") {
                merge(
                    headers,
                    &json!({"retry-after": wait_s.to_string(),
                    "cache-control": "no-store"}),
                );
            }
            t.add(at, event);
            t.add(
                at + 5,
                json!({
                    "vantage": "origin", "service": "storefront", "host": "api.example.com",
                    "method": "GET", "route": "/v1/search", "status": 429, "duration_ms": inside,
                    "request_id": request_id, "instance": "search-api-1",
                    "error_code": "rate_limited",
                }),
            );
            goes_on.then_some(took + delay)
        });
    }

    /// Two layers retry: the SDK three times, the application four times around it, each after a
    /// fixed wait. Gives the id of an operation that used all twelve.
    fn catalog_sync(&mut self) -> String {
        const SDK_TRIES: u32 = 3;
        const APP_ROUNDS: u32 = 4;
        const WORKERS: (&str, i64) = ("worker", 2);
        let items = json!({
            "service": "catalog-sync", "host": "catalog.example.net", "method": "GET",
            "route": "/v1/items/{sku}", "key_hash": hash("catalog key"), "key_kind": "api-key",
            "client_address_hash": hash("203.0.113.30"),
        });
        self.bulk(0..25, WORKERS, 12, &items);
        self.bulk(35..MINUTES, WORKERS, 12, &items);
        let arrivals = self.arrivals(25..35, 30);
        let mut longest = String::new();
        // A token bucket: a token every 2.4 s, 8 at most.
        let (mut tokens_ms, mut filled_at) = (8 * 2_400_i64, self.minute(25));
        self.run(arrivals, |t, (at, operation, attempt)| {
            tokens_ms = (tokens_ms + at - filled_at).min(8 * 2_400);
            filled_at = at;
            let is_served = tokens_ms >= 2_400;
            let by = match attempt {
                1 => None,
                n if (n - 1) % SDK_TRIES == 0 => Some(("app", APP_ROUNDS)),
                _ => Some(("sdk", SDK_TRIES)),
            };
            let id = format!("sync-{operation:05}");
            let took = if is_served { t.random.between(60, 150) } else { t.random.between(12, 30) };
            let mut event = json!({
                "operation_id": id, "attempt": attempt, "duration_ms": took, "timeout_ms": 10_000,
                "instance": format!("worker-{}", operation % 2 + 1),
                "retry_layer": by.map(|(layer, _)| layer),
                "attempts_max": by.map(|(_, most)| most),
                "headers": {"date": date(at + took), "x-amzn-requestid": uuid(&t.hex(), &t.hex()),
                    "x-amz-apigw-id": format!("{}=", &t.hex()), "content-type": "application/json"},
            });
            merge(&mut event, &items);
            if is_served {
                tokens_ms -= 2_400;
                merge(&mut event, &json!({"status": 200, "outcome": "succeeded"}));
                t.add(at, event);
                return None;
            }
            let goes_on = attempt < SDK_TRIES * APP_ROUNDS;
            let delay = match attempt % SDK_TRIES {
                0 => 2_000,
                n => 500 * i64::from(n),
            };
            if !goes_on && longest.is_empty() {
                longest.clone_from(&id);
            }
            merge(
                &mut event,
                &json!({
                    "status": 429, "outcome": if goes_on { "retrying" } else { "exhausted" },
                    "computed_delay_ms": goes_on.then_some(delay),
                    "delay_source": goes_on.then_some("fixed"),
                    "body_sample": "{\"message\":\"Too Many Requests\"}",
                }),
            );
            if let Some(headers) = event.get_mut("headers") {
                merge(headers, &json!({"x-amzn-errortype": "TooManyRequestsException"}));
            }
            t.add(at, event);
            goes_on.then(|| took + delay + t.random.between(1, 4))
        });
        longest
    }

    /// Writes whose fate stays open: no key, another key each time, one key with two bodies, a
    /// conflict after a retry, and a repeat of what can't succeed.
    fn billing(&mut self) {
        let charges = json!({
            "service": "billing", "host": "payments.example.net", "method": "POST",
            "route": "/v1/charges", "key_hash": hash("billing key"), "key_kind": "api-key",
        });
        self.bulk(0..MINUTES, ("pod", 2), 24, &charges);
        let cases = self.arrivals(5..55, 1);
        for (n, at) in cases.into_iter().enumerate() {
            let id = format!("charge-{n:04}");
            let key = hash(&format!("key of {id}"));
            let other = hash(&format!("other key of {id}"));
            let body = hash(&format!("body of {id}"));
            let unlike = hash(&format!("other body of {id}"));
            let timeout = json!({"error": "timeout", "duration_ms": 3000});
            let broken = json!({"status": 502, "duration_ms": 900});
            let done = json!({"status": 201, "duration_ms": 210});
            let conflict = json!({"status": 409, "duration_ms": 95,
                "error_code": "charge_already_exists"});
            let refused = json!({"status": 422, "duration_ms": 60, "error_code": "card_declined"});
            let (answers, keys, bodies) = match n % 5 {
                0 => (vec![timeout, done], [None, None], [&body, &body]),
                1 => (vec![broken, done], [Some(&key), Some(&other)], [&body, &body]),
                2 => (vec![timeout, conflict], [Some(&key), Some(&key)], [&body, &body]),
                3 => (vec![broken, done], [Some(&key), Some(&key)], [&body, &unlike]),
                _ => (vec![refused.clone(), refused], [Some(&key), Some(&key)], [&body, &body]),
            };
            let last = answers.len() - 1;
            let mut sent = at;
            for (i, (answer, (key, body))) in
                answers.into_iter().zip(keys.into_iter().zip(bodies)).enumerate()
            {
                let delay = self.random.between(300, 1200);
                let took = answer.get("duration_ms").and_then(Value::as_i64).unwrap_or_default();
                let outcome = match answer.get("status").and_then(Value::as_i64) {
                    _ if i < last => "retrying",
                    Some(201) => "succeeded",
                    _ => "not-retryable",
                };
                let mut event = json!({
                    "operation_id": id, "attempt": i + 1, "idempotency_key_hash": key,
                    "body_hash": body, "outcome": outcome, "attempts_max": 3, "timeout_ms": 3000,
                    "deadline_ms": 15_000, "retry_layer": (i > 0).then_some("app"),
                    "computed_delay_ms": (i < last).then_some(delay),
                    "delay_source": (i < last).then_some("full jitter"), "instance": "pod-1",
                });
                merge(&mut event, &charges);
                merge(&mut event, &answer);
                self.add(sent, event);
                sent += took + delay;
            }
        }
    }

    /// A cap of 30 s below the two minutes that the server asks for.
    fn notifier(&mut self) {
        let push = json!({
            "service": "notifier", "host": "push.example.org", "method": "POST",
            "route": "/v1/messages", "key_hash": hash("notifier key"), "key_kind": "token",
        });
        self.bulk(0..MINUTES, ("pod", 2), 20, &push);
        let arrivals = self.arrivals(12..42, 1);
        self.run(arrivals, |t, (at, operation, attempt)| {
            let goes_on = attempt < 3;
            let took = t.random.between(4, 12);
            let id = format!("push-{operation:04}");
            let mut event = json!({
                "operation_id": id, "attempt": attempt, "status": 429, "duration_ms": took,
                "retry_after": "120", "attempts_max": 3, "deadline_ms": 300_000,
                "timeout_ms": 2000, "instance": format!("pod-{}", operation % 2 + 1),
                "idempotency_key_hash": hash(&format!("key of {id}")),
                "retry_layer": (attempt > 1).then_some("app"),
                "outcome": if goes_on { "retrying" } else { "exhausted" },
                "computed_delay_ms": goes_on.then_some(30_000),
                "delay_source": goes_on.then_some("retry-after, capped"),
                "headers": {"server": "envoy", "x-envoy-ratelimited": "true",
                    "date": date(at + took), "retry-after": "120"},
            });
            merge(&mut event, &push);
            t.add(at, event);
            goes_on.then(|| took + 30_000 + t.random.between(1, 8))
        });
    }

    /// Twenty seconds taken for twenty milliseconds.
    fn importer(&mut self) {
        let files = json!({
            "service": "importer", "host": "files.example.org", "method": "GET",
            "route": "/v2/files/{id}", "key_hash": hash("importer key"), "key_kind": "api-key",
        });
        self.bulk(0..MINUTES, ("pod", 2), 16, &files);
        let arrivals = self.arrivals(30..50, 1);
        self.run(arrivals, |t, (at, operation, attempt)| {
            let goes_on = attempt < 4;
            let took = t.random.between(3, 9);
            let mut event = json!({
                "operation_id": format!("file-{operation:04}"), "attempt": attempt, "status": 429,
                "duration_ms": took, "retry_after": "20", "attempts_max": 4, "timeout_ms": 2000,
                "deadline_ms": 60_000, "instance": format!("pod-{}", operation % 2 + 1),
                "retry_layer": (attempt > 1).then_some("http-client"),
                "outcome": if goes_on { "retrying" } else { "exhausted" },
                "computed_delay_ms": goes_on.then_some(20),
                "delay_source": goes_on.then_some("retry-after"),
                "body_sample": "{\"message\":\"API rate limit exceeded\"}",
                "headers": {"server": "kong/3.9.0", "x-kong-response-latency": "1",
                    "x-ratelimit-limit-minute": "60", "x-ratelimit-remaining-minute": "0",
                    "ratelimit-limit": "60", "ratelimit-remaining": "0", "ratelimit-reset": "20",
                    "date": date(at + took), "retry-after": "20",
                    "content-type": "application/json; charset=utf-8"},
            });
            merge(&mut event, &files);
            t.add(at, event);
            goes_on.then(|| took + 20 + t.random.between(0, 3))
        });
    }
}

/// Puts the fields of `more` into `into`, null ones left out.
fn merge(into: &mut Value, more: &Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        let more = more.iter().filter(|(_, value)| !value.is_null());
        into.extend(more.map(|(name, value)| (name.clone(), value.clone())));
    }
}

/// A made-up hash, the same for the same words.
fn hash(words: &str) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(words.as_bytes())))
}

/// A server's `Date` for an answer at `at`.
fn date(at: i64) -> String {
    http_date::format_imf(UnixMillis(at))
}

/// Two runs of sixteen digits in the shape of a UUID.
fn uuid(high: &str, low: &str) -> String {
    let digits: Vec<char> = high.chars().chain(low.chars()).collect();
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default().iter().collect();
    let parts: [String; 5] = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Story {
        tell(UnixMillis::parse_rfc3339("2026-11-11T12:00:31Z").unwrap(), 1)
    }

    #[test]
    fn the_same_end_and_seed_tell_the_same_story() {
        assert_eq!(told(), told());
        let other = tell(UnixMillis::parse_rfc3339("2026-11-11T12:00:31Z").unwrap(), 2);
        assert_ne!(told().events, other.events);
    }

    #[test]
    fn every_event_lies_within_the_hour() {
        let story = told();
        assert_eq!(story.to.to_rfc3339(), "2026-11-11T12:00:00.000Z");
        for event in &story.events {
            let at = event["occurred_at"].as_str().and_then(UnixMillis::parse_rfc3339).unwrap();
            assert!(story.from <= at && at < story.to, "{event}");
        }
        assert!((4_000..12_000).contains(&story.events.len()), "{}", story.events.len());
    }

    #[test]
    fn a_window_counts_from_its_first_request_or_by_the_clock() {
        let mut rule = FixedWindow::new(2, false);
        assert_eq!(rule.take(10_500), Ok(1));
        assert_eq!(rule.take(10_600), Ok(0));
        assert_eq!(rule.take(60_000), Err(11));
        assert_eq!(rule.take(70_500), Ok(1));
        let mut rule = FixedWindow::new(1, true);
        assert_eq!(rule.take(10_500), Ok(0));
        assert_eq!(rule.take(59_999), Err(1));
        assert_eq!(rule.take(60_000), Ok(0));
    }
}
