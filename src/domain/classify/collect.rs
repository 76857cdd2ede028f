//! What to collect next when a verdict is open or weak: the cheapest datum for the hop where the
//! walk stopped (gateways.md 3.8).

use super::{CollectNext, Responder};

/// The next datum for `hop`; `None` is for a path of which nothing is known.
pub(crate) fn next(hop: Option<Responder>) -> CollectNext {
    let (datum, reads_as, command) = match hop {
        Some(Responder::Cloudflare) => (
            "One response with Server-Timing visible, or Logpush's OriginResponseStatus, \
             EdgeServerIP and SecuritySources for this ray id.",
            "cfOrigin;dur=0, or origin status 0 with an empty EdgeServerIP: Cloudflare answered.",
            Some(
                "curl -sS -D - -o /dev/null \"$URL\" | grep -i -e cf-ray -e cf-cache-status -e server-timing",
            ),
        ),
        Some(Responder::AwsApiGateway) => (
            "The stage's access log line for this request id, with $context.error.responseType, \
             $context.integration.status and $context.extendedRequestId.",
            "A response type and \"-\" for the integration: the gateway answered.",
            Some(
                "$context.requestId $context.extendedRequestId $context.status $context.error.responseType $context.integration.status",
            ),
        ),
        Some(Responder::AwsAlb | Responder::AwsWaf) => (
            "The load balancer's log entry for this trace id (target_status_code, \
             actions_executed) and the WAF log's terminatingRuleType.",
            "target_status_code \"-\": the target was not asked; RATE_BASED: a rate rule refused.",
            None,
        ),
        Some(Responder::Cloudfront) => (
            "One request with the header \"Pragma: server-timing\", or origin-fbl in the \
             real-time log.",
            "cdn-cache-miss or a number in origin-fbl: something behind CloudFront answered.",
            Some("curl -sS -D - -o /dev/null -H 'Pragma: server-timing' \"$URL\""),
        ),
        Some(Responder::Envoy) => (
            "The access log line of every Envoy on the path, with response flags, code details \
             and upstream host.",
            "RL, UO or UH at the deepest proxy: that one answered; via_upstream: go one further in.",
            Some(
                "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% %UPSTREAM_HOST% %REQ(X-REQUEST-ID)%",
            ),
        ),
        Some(Responder::Nginx | Responder::Apisix) => (
            "The access log line with the upstream and limiter variables.",
            "limit_req_status or limit_conn_status REJECTED: nginx refused; a number in \
             upstream_status: something behind it answered.",
            Some(
                "log_format diag '$status $upstream_addr $upstream_status $limit_req_status $limit_conn_status $upstream_cache_status $request_id';",
            ),
        ),
        Some(Responder::Haproxy) => (
            "The HTTP log line (option httplog): termination state and server name.",
            "PR--, PT-- or LR-- with <NOSRV>: HAProxy refused; ---- with a server: the server did.",
            Some("option httplog"),
        ),
        Some(Responder::Kong) => (
            "The record of any log plugin: source, upstream_status and latencies.proxy.",
            "source kong with an empty upstream_status: Kong refused.",
            None,
        ),
        Some(Responder::Traefik) => (
            "The JSON access log's OriginStatus and OriginDuration.",
            "0 or absent: Traefik answered.",
            Some("accessLog: { format: json }"),
        ),
        Some(Responder::Varnish) => (
            "varnishncsa's handling for this transaction id.",
            "synth: made in VCL; hit: replayed; miss or pass: fetched from the backend.",
            Some("varnishncsa -F '%{Varnish:vxid}x %{Varnish:handling}x %s'"),
        ),
        Some(Responder::Fastly) => (
            "fastly_info.state of this request in the service's log.",
            "ERROR or HIT-SYNTH: Fastly made it; HIT: replayed; MISS or PASS: the backend answered.",
            None,
        ),
        Some(Responder::AzureApim) => (
            "The gateway log's LastErrorReason, LastErrorSource and BackendResponseCode.",
            "An empty backend code and a limit policy as source: API Management refused.",
            None,
        ),
        Some(Responder::AzureFrontDoor) => (
            "The WAF log entry whose trackingReference equals x-azure-ref.",
            "Action Block: Front Door refused; no entry: look at originName in the access log.",
            None,
        ),
        Some(Responder::Gcp) => (
            "The load balancer's log entry: jsonPayload.statusDetails.",
            "denied_by_security_policy: Cloud Armor refused; response_sent_by_backend: the backend did.",
            None,
        ),
        Some(Responder::Apache) => (
            "An access log with the backend's own status and source port, and the error log id.",
            "proxy-status set: the backend answered; an error log id with mod_qos or mod_evasive: \
             Apache refused.",
            Some(
                "LogFormat \"%t %>s %{proxy-status}n %{proxy-source-port}n %{mod_qos_ev}e %L\" diag",
            ),
        ),
        Some(Responder::Caddy) => (
            "The access log with the reverse proxy's status.",
            "{http.reverse_proxy.status_code} set: the upstream answered.",
            Some("log_append upstream_status {http.reverse_proxy.status_code}"),
        ),
        Some(Responder::Trafficserver) => (
            "The access log's server status code (sssc) and cache result (crc).",
            "sssc 000: Traffic Server answered by itself.",
            None,
        ),
        Some(Responder::Squid) => (
            "The access log's result code, hierarchy code and upstream status.",
            "TCP_DENIED with HIER_NONE: Squid refused.",
            None,
        ),
        Some(Responder::Akamai) => (
            "The security event for the reference id, or the DataStream record of this request.",
            "A deny action: Akamai refused.",
            None,
        ),
        Some(Responder::Origin) => (
            "The application's own log line or server span for this request or trace id.",
            "A line with the same id: the application answered; a complete log without it: it was \
             never asked.",
            None,
        ),
        _ => (
            "The same request with curl from outside the application: once against the edge and, \
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
