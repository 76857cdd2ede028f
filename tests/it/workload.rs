//! A deterministic fleet: services that call upstreams through several gateways, with storms.
//! Event `n` is the same on every run, so a batch can be sent again.

use std::fmt::Write as _;

/// 2026-11-11T00:00:00Z.
pub(crate) const START_MS: i64 = 1_794_355_200_000;

/// A small, fast generator with a known sequence (Vigna's splitmix64).
struct Splitmix(u64);

impl Splitmix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Writes event `n` of `total`, which are spread evenly over one day, as one line of NDJSON.
pub(crate) fn write_event(out: &mut String, n: u64, total: u64) {
    let mut dice = Splitmix(n);
    let at = START_MS + i64::try_from(n * 86_400_000 / total).unwrap();
    let service = dice.below(120);
    let upstream = service % 30;
    let attempt = match dice.below(20) {
        0..=16 => 1,
        17 | 18 => 2,
        _ => 3,
    };
    let storm = (at / 600_000) % 12 == 0;
    let limited = dice.below(100) < if storm { 35 } else { 6 };
    write!(
        out,
        r#"{{"event_id":"{at:013x}-{n:010x}","operation_id":"op-{:x}","attempt":{attempt},"occurred_at":{at_text:?},"duration_ms":{},"service":"service-{service}","environment":"prod","instance":"pod-{}","retry_layer":"sdk","method":"{}","host":"api-{upstream}.example.com","route":"/v1/orders/{}","request_id":"req-{:016x}","key_hash":"hmac-sha256:{:064x}""#,
        n / 2,
        20 + dice.below(300),
        dice.below(16),
        if dice.below(3) == 0 { "POST" } else { "GET" },
        dice.below(8),
        dice.next(),
        dice.below(40) * 1_000_003 + service,
        at_text = retrylens::domain::time::UnixMillis(at).to_rfc3339(),
    )
    .unwrap();
    if limited {
        let wait = 1 + dice.below(60);
        let headers = match upstream % 3 {
            0 => format!(
                r#"{{"server":"cloudflare","cf-ray":"{:016x}-FRA","retry-after":"{wait}","content-type":"text/html"}}"#,
                dice.next()
            ),
            1 => r#"{"server":"nginx/1.25.3","content-type":"text/html"}"#.to_owned(),
            _ => format!(
                r#"{{"server":"envoy","x-envoy-ratelimited":"true","retry-after":"{wait}"}}"#
            ),
        };
        write!(
            out,
            r#","status":429,"retry_after":"{wait}","computed_delay_ms":{},"outcome":"retrying","headers":{headers}}}"#,
            wait * 1000 + dice.below(900)
        )
        .unwrap();
    } else {
        out.push_str(r#","status":200,"outcome":"succeeded"}"#);
    }
    out.push('\n');
}

/// Events `from` to `to` (not included) of `total` as NDJSON.
pub(crate) fn batch(from: u64, to: u64, total: u64) -> String {
    let mut out = String::with_capacity(usize::try_from((to - from) * 640).unwrap());
    for n in from..to {
        write_event(&mut out, n, total);
    }
    out
}

#[test]
fn the_same_event_comes_out_each_time() {
    assert_eq!(batch(5, 8, 1000), batch(5, 8, 1000));
    assert_ne!(batch(5, 6, 1000), batch(6, 7, 1000));
    assert!(
        batch(0, 20, 1000)
            .lines()
            .all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok())
    );
}
