//! Who calls whom: services, the upstreams they call and the gateways in front of those.

use super::dice::Dice;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// The one fleet.
pub(super) static FLEET: LazyLock<Fleet> = LazyLock::new(Fleet::new);

const DOMAINS: [&str; 25] = [
    "orders", "checkout", "cart", "catalog", "search", "pricing", "stock", "shipping", "returns",
    "billing", "invoices", "payments", "ledger", "accounts", "login", "profiles", "notify",
    "mailer", "reports", "exports", "imports", "media", "reviews", "loyalty", "fraud",
];
const ROLES: [&str; 8] = ["api", "worker", "sync", "web", "batch", "cron", "stream", "admin"];
const UPSTREAMS: [&str; 20] = [
    "pay", "geo", "mail", "sms", "tax", "rates", "identity", "vault", "index", "images", "labels",
    "carriers", "risk", "ads", "crm", "docs", "events", "flags", "models", "chat",
];
const ENDINGS: [&str; 3] = ["example.com", "example.net", "example.org"];
const ROUTES: [(&str, &str); 12] = [
    ("GET", "/v1/items/{id}"),
    ("GET", "/v1/items"),
    ("POST", "/v1/messages"),
    ("GET", "/v2/accounts/{id}/limits"),
    ("POST", "/v1/charges"),
    ("GET", "/v1/search"),
    ("GET", "/v1/users/{id}"),
    ("POST", "/v1/batches/{id}/lines"),
    ("GET", "/v3/quotes/{from}/{to}"),
    ("GET", "/v1/files/{id}/meta"),
    ("PUT", "/v1/profiles/{id}"),
    ("GET", "/v1/feeds/{name}/entries"),
];

/// Services, pods of each, series of each.
const SERVICES: usize = 200;
const PODS: u32 = 16;
const SERIES_EACH: usize = 4;
/// Keys and egress addresses of a service.
const KEYS: u32 = 3;
const ADDRESSES: u32 = 3;

/// What answers at an upstream, by make and setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Front {
    /// Cloudflare refuses by a rate limiting rule of its own.
    Cloudflare,
    /// Cloudflare relays what the application behind it refuses.
    CloudflareOrigin,
    /// A REST API of AWS API Gateway.
    ApiGateway,
    /// Envoy's local limit, with its rate limit headers on every answer.
    EnvoyLocal,
    /// Envoy asks a rate limit service.
    EnvoyGlobal,
    /// nginx `limit_req` with `limit_req_status 429`.
    Nginx,
    /// HAProxy `http-request deny deny_status 429`.
    HaProxy,
    /// Kong's rate-limiting plugin.
    Kong,
    /// Fastly's edge rate limiting.
    Fastly,
    /// An application with express-rate-limit.
    Express,
    /// An application with an error document of its own.
    Origin,
    /// A provider of models, with limits of requests and of tokens.
    Models,
}

/// The fronts of twenty upstreams in a row.
const FRONTS: [Front; 20] = [
    Front::Cloudflare,
    Front::ApiGateway,
    Front::EnvoyLocal,
    Front::Nginx,
    Front::Origin,
    Front::Cloudflare,
    Front::Kong,
    Front::ApiGateway,
    Front::EnvoyLocal,
    Front::HaProxy,
    Front::CloudflareOrigin,
    Front::Nginx,
    Front::Express,
    Front::Cloudflare,
    Front::EnvoyGlobal,
    Front::ApiGateway,
    Front::Nginx,
    Front::Fastly,
    Front::Models,
    Front::HaProxy,
];

/// A host that is called.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) front: Front,
    /// What its answers say of a limit, per minute.
    pub(super) limit: u32,
}

/// How a service retries.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) attempts_max: u32,
    pub(super) timeout_ms: u32,
    /// The first wait without a promise; it doubles with each attempt.
    pub(super) base_ms: u32,
    pub(super) honours_promise: bool,
    pub(super) has_jitter: bool,
}

/// A service calling a route of an upstream.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) service: usize,
    pub(super) upstream: usize,
    pub(super) is_write: bool,
    /// Method, host and route, as fields of JSON.
    pub(super) fields: String,
}

/// A caller.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) policy: Policy,
    /// Its name, environment and retry settings, as fields of JSON.
    pub(super) fields: String,
    /// Names of its pods.
    pub(super) pods: Vec<String>,
    /// Its keys and the addresses that it calls from, as fields of JSON; empty where it sends none.
    pub(super) keys: Vec<String>,
    pub(super) addresses: Vec<String>,
    /// Whether its writes carry an idempotency key.
    pub(super) has_idempotency_keys: bool,
}

/// All of them, and who is busy.
#[derive(Debug)]
pub(super) struct Fleet {
    pub(super) services: Vec<Service>,
    pub(super) upstreams: Vec<Upstream>,
    pub(super) series: Vec<Series>,
    /// Numbers of services, the busier the more often.
    by_traffic: Vec<usize>,
}

impl Fleet {
    fn new() -> Self {
        let upstreams = (0..UPSTREAMS.len() * ENDINGS.len())
            .map(|n| Upstream {
                front: FRONTS[n % FRONTS.len()],
                limit: Dice::new(1, n as u64).one_of(&[60, 100, 300, 600, 1_000, 5_000]),
            })
            .collect();
        Self {
            services: (0..SERVICES).map(Service::new).collect(),
            upstreams,
            series: (0..SERVICES * SERIES_EACH).map(Series::new).collect(),
            by_traffic: (0..SERVICES).flat_map(|n| vec![n; 2_000 / (n + 8)]).collect(),
        }
    }

    /// The series that the next operation belongs to.
    pub(super) fn draw(&self, dice: &mut Dice) -> usize {
        let service = dice.one_of(&self.by_traffic);
        service * SERIES_EACH + dice.one_of(&[0, 0, 0, 0, 1, 1, 1, 2, 2, 3])
    }
}

impl Service {
    fn new(n: usize) -> Self {
        let mut dice = Dice::new(2, n as u64);
        let name = format!("{}-{}", DOMAINS[n % DOMAINS.len()], ROLES[n / DOMAINS.len()]);
        let policy = Policy {
            attempts_max: dice.between(3, 6),
            timeout_ms: dice.one_of(&[1_000, 2_000, 3_000, 5_000, 10_000]),
            base_ms: dice.one_of(&[100, 200, 250, 500, 1_000, 2_000]),
            honours_promise: dice.percent(80),
            has_jitter: dice.percent(75),
        };
        let layer = dice.one_of(&["sdk", "sdk", "http-client", "http-client", "app", "queue"]);
        let environment = if n % 25 == 24 { "staging" } else { "prod" };
        let fields = format!(
            r#","service":"{name}","environment":"{environment}","retry_layer":"{layer}","attempts_max":{},"timeout_ms":{}"#,
            policy.attempts_max, policy.timeout_ms
        );
        let release = dice.next() & 0xff_ffff;
        let pods = (0..PODS)
            .map(|_| format!("{name}-{release:06x}-{:05x}", dice.below(1 << 20)))
            .collect();
        let kind = dice.one_of(&["api-key", "api-key", "token"]);
        let keys = hashes(&mut dice, KEYS)
            .map(|hash| format!(r#","key_hash":"{hash}","key_kind":"{kind}""#))
            .collect();
        let sends_address = dice.percent(35);
        let addresses = hashes(&mut dice, if sends_address { ADDRESSES } else { 0 })
            .map(|hash| format!(r#","client_address_hash":"{hash}""#))
            .collect();
        Self { policy, fields, pods, keys, addresses, has_idempotency_keys: dice.percent(50) }
    }
}

impl Series {
    /// Two routes of a first upstream, one each of two others.
    fn new(n: usize) -> Self {
        let (service, which) = (n / SERIES_EACH, n % SERIES_EACH);
        let count = UPSTREAMS.len() * ENDINGS.len();
        let first = service * 7 % count;
        let upstream = match which {
            0 | 1 => first,
            2 => (first + 1 + service % 17) % count,
            _ => (first + 20 + service % 19) % count,
        };
        let (method, route) = ROUTES[(service * 5 + which) % ROUTES.len()];
        let host = format!(
            "{}.{}",
            UPSTREAMS[upstream % UPSTREAMS.len()],
            ENDINGS[upstream / UPSTREAMS.len()]
        );
        let fields = format!(r#","method":"{method}","host":"{host}","route":"{route}""#);
        Self { service, upstream, is_write: method != "GET", fields }
    }
}

/// Texts as HMAC-SHA-256 would give them.
fn hashes(dice: &mut Dice, count: u32) -> impl Iterator<Item = String> {
    (0..count).map(|_| {
        (0..4).fold("hmac-sha256:".to_owned(), |mut text, _| {
            write!(text, "{:016x}", dice.next()).unwrap();
            text
        })
    })
}
