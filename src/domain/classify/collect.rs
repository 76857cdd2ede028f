//! What to collect next when a verdict is open or weak: the cheapest datum for the hop where the
//! walk stopped (gateways.md 3.8).

use super::{CollectNext, Responder};

/// The next datum for `hop`; `None` is for a path of which nothing is known.
pub(crate) fn next(hop: Option<Responder>) -> CollectNext {
    let (datum, reads_as, command) = match hop {
        Some(Responder::Cloudflare) => (
            "Send one response with Server-Timing visible, or Logpush's OriginResponseStatus, \
             EdgeServerIP and SecuritySources for this ray id.",
            "With cfOrigin;dur=0, or origin status 0 and an empty EdgeServerIP, Cloudflare answered.",
            Some(
                "curl -sS -D - -o /dev/null \"$URL\" | grep -i -e cf-ray -e cf-cache-status -e server-timing",
            ),
        ),
        Some(Responder::AwsApiGateway) => (
            "Send the stage's access log line for this request id, with $context.error.responseType, \
             $context.integration.status and $context.extendedRequestId.",
            "With a response type, and \"-\" for the integration, the gateway answered.",
            Some(
                "$context.requestId $context.extendedRequestId $context.status $context.error.responseType $context.integration.status",
            ),
        ),
        Some(Responder::AwsAlb | Responder::AwsWaf) => (
            "Send the load balancer's log entry for this trace id (target_status_code, \
             actions_executed) and the WAF log's terminatingRuleType.",
            "With \"-\" as target_status_code the target was not asked; RATE_BASED means that a rate \
             rule refused.",
            None,
        ),
        Some(Responder::Cloudfront) => (
            "Make one request with the header \"Pragma: server-timing\", or send origin-fbl of \
             the real-time log.",
            "With cdn-cache-miss, or a number in origin-fbl, something behind CloudFront answered.",
            Some("curl -sS -D - -o /dev/null -H 'Pragma: server-timing' \"$URL\""),
        ),
        Some(Responder::Envoy) => (
            "Send the access log line of every Envoy on the path, with response flags, code details \
             and upstream host.",
            "With RL, UO or UH at the deepest proxy that one answered; with via_upstream go one \
             further in.",
            Some(
                "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %UPSTREAM_HOST% %REQ(X-REQUEST-ID)%",
            ),
        ),
        Some(Responder::Nginx | Responder::Apisix) => (
            "Send the access log line with the upstream and limiter variables.",
            "With REJECTED as limit_req_status or limit_conn_status nginx refused; with a number in \
             upstream_status something behind it answered.",
            Some(
                "log_format diag '$status $upstream_addr $upstream_status $limit_req_status $limit_conn_status $upstream_cache_status $request_id';",
            ),
        ),
        Some(Responder::Haproxy) => (
            "Send the HTTP log line (option httplog): termination state and server name.",
            "With PR--, PT-- or LR-- and <NOSRV> HAProxy refused; with ---- and a server that server \
             did.",
            Some("option httplog"),
        ),
        Some(Responder::Kong) => (
            "Send the record of any log plugin: source, upstream_status and latencies.proxy.",
            "With kong as source and an empty upstream_status Kong refused.",
            None,
        ),
        Some(Responder::Traefik) => (
            "Send the JSON access log's OriginStatus and OriginDuration.",
            "Where they are 0 or absent, Traefik answered.",
            Some("accessLog: { format: json }"),
        ),
        Some(Responder::Varnish) => (
            "Send varnishncsa's handling for this transaction id.",
            "It is synth where VCL made the answer, hit where it was replayed, miss or pass where the \
             backend was asked.",
            Some("varnishncsa -F '%{Varnish:vxid}x %{Varnish:handling}x %s'"),
        ),
        Some(Responder::Fastly) => (
            "Send fastly_info.state of this request in the service's log.",
            "With ERROR or HIT-SYNTH Fastly made it, with HIT it was replayed, with MISS or PASS the \
             backend answered.",
            None,
        ),
        Some(Responder::AzureApim) => (
            "Send the gateway log's LastErrorReason, LastErrorSource and BackendResponseCode.",
            "With an empty backend code and a limit policy as source API Management refused.",
            None,
        ),
        Some(Responder::AzureFrontDoor) => (
            "Send the WAF log entry whose trackingReference equals x-azure-ref.",
            "With the action Block Front Door refused; where there is no entry, look at originName in \
             the access log.",
            None,
        ),
        Some(Responder::Gcp) => (
            "Send the load balancer's log entry: jsonPayload.statusDetails.",
            "With denied_by_security_policy Cloud Armor refused; with response_sent_by_backend the \
             backend answered.",
            None,
        ),
        Some(Responder::Apache) => (
            "Send an access log with the backend's own status and source port, and the error log id.",
            "With proxy-status set the backend answered; with an error log id of mod_qos or \
             mod_evasive Apache refused.",
            Some(
                "LogFormat \"%t %>s %{proxy-status}n %{proxy-source-port}n %{mod_qos_ev}e %L\" diag",
            ),
        ),
        Some(Responder::Caddy) => (
            "Send the access log with the reverse proxy's status.",
            "Where {http.reverse_proxy.status_code} is set, the upstream answered.",
            Some("log_append upstream_status {http.reverse_proxy.status_code}"),
        ),
        Some(Responder::Trafficserver) => (
            "Send the access log's server status code (sssc) and cache result (crc).",
            "With 000 as sssc Traffic Server answered by itself.",
            None,
        ),
        Some(Responder::Squid) => (
            "Send the access log's result code, hierarchy code and upstream status.",
            "With TCP_DENIED and HIER_NONE Squid refused.",
            None,
        ),
        Some(Responder::Akamai) => (
            "Send the security event for the reference id, or the DataStream record of this request.",
            "Where the action is deny, Akamai refused.",
            None,
        ),
        Some(Responder::Origin) => (
            "Send the application's own log line or server span for this request or trace id.",
            "Where a line has the same id, the application answered; where a complete log has none, \
             it was never asked.",
            None,
        ),
        _ => (
            "Repeat the same request with curl from outside the application: once against the edge and, \
             if you may, once straight at the origin's address with the same Host and key. No \
             more than two or three probes, spaced wider than the window.",
            "Header fields that only one of the two answers carries name the hop that answered.",
            Some("curl -sS -D - -o /dev/null --resolve \"$HOST:443:$ORIGIN_ADDRESS\" \"$URL\""),
        ),
    };
    worded(datum, reads_as, command)
}

/// What to send where the head of the response was not captured: without it nothing can be told.
pub(crate) fn head() -> CollectNext {
    worded(
        "Send the response headers (server, date, via, cf-ray, retry-after and the others of the \
         allow-list) and the first 2 KiB of the body: as headers and body_sample of the event, or \
         as the whole output of curl -i.",
        "A server name, an id that a hop adds, or a page that one product alone writes names the \
         component that answered.",
        Some("curl -sS -i \"$URL\" | head -c 8192"),
    )
}

fn worded(datum: &str, reads_as: &str, command: Option<&str>) -> CollectNext {
    CollectNext {
        datum: datum.to_owned(),
        reads_as: reads_as.to_owned(),
        command: command.map(ToOwned::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_collect_reads_as_sentences_that_end_once() {
        let all = Responder::ALL.iter().map(|hop| next(Some(*hop)));
        for next in all.chain([next(None), head()]) {
            let joined = next.sentences();
            assert!(!joined.contains("..") && !joined.contains("  "), "{joined}");
            for sentence in [&next.datum, &next.reads_as] {
                assert!(sentence.starts_with(|c: char| c.is_ascii_uppercase()), "{sentence}");
                assert!(sentence.ends_with('.'), "{sentence}");
            }
            let verb = next.datum.split(' ').next();
            assert!(matches!(verb, Some("Send" | "Repeat" | "Make")), "{joined}");
        }
    }
}
