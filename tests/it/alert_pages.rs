//! Alerts as people and programs see them: real events through the intake, the evaluator under a
//! clock that is moved, then the pages, their twins, silences and acknowledgements.

use crate::support::TestApp;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use retrylens::clock::Clock;
use retrylens::domain::alerts::notice::Addressee;
use retrylens::domain::alerts::{RULES, ReceiverKey, Severity, Watch};
use retrylens::domain::time::{MINUTE_MS, Millis, UnixMillis};
use retrylens::pipeline::alerts::Evaluator;
use retrylens::store::Sent;
use scraper::{Html, Selector};
use serde_json::{Value, json};

/// The program with its evaluator, and a receiver `pager`.
struct Watched {
    app: TestApp,
    evaluator: Evaluator,
    minute: i64,
    sent: u64,
}

impl Watched {
    async fn start() -> Self {
        Self::of(TestApp::start().await)
    }

    fn of(app: TestApp) -> Self {
        let state = &app.state;
        let evaluator = Evaluator::new(
            state.store.clone(),
            state.metrics.clone(),
            state.config.alerts.clone(),
            "https://lens.example.com".to_owned(),
            vec![Addressee { name: "pager".to_owned(), severities: Severity::ALL.to_vec() }],
        );
        let minute = app.clock.now().0 / MINUTE_MS;
        Self { app, evaluator, minute, sent: 0 }
    }

    /// A minute in which `service` calls 60 times and gets 429 for so many of its first attempts,
    /// each served by a retry; then the evaluation of it.
    async fn live(&mut self, service: &str, refused: i64) {
        let now = UnixMillis(self.minute * MINUTE_MS + 30_000);
        self.app.clock.set(now);
        let mut event = |attempt: i64, status: i64, count: i64| {
            self.sent += 1;
            json!({"event_id": format!("e{}", self.sent), "occurred_at": now.to_rfc3339(),
                "service": service, "host": "api.example.com", "environment": "prod",
                "attempt": attempt, "status": status, "count": count})
        };
        let mut events = vec![event(1, 200, 60 - refused)];
        if refused > 0 {
            events.extend([event(1, 429, refused), event(2, 200, refused)]);
        }
        self.app.store(&events).await;
        self.minute += 1;
        self.app.clock.set(UnixMillis(self.minute * MINUTE_MS + 8_000));
        self.evaluator.catch_up(self.app.clock.now()).await.unwrap();
    }

    /// Calm, then a storm until the spike fires; its number.
    async fn storm(&mut self, service: &str) -> i64 {
        for _ in 0..5 {
            self.live(service, 0).await;
        }
        for _ in 0..10 {
            self.live(service, 30).await;
            let alerts = self.json("/api/v1/alerts?alert=Retrylens429Spike").await;
            if alerts["items"][0]["state"] == "firing" {
                return alerts["items"][0]["id"].as_i64().unwrap();
            }
        }
        panic!("the spike does not fire");
    }

    async fn json(&self, address: &str) -> Value {
        let answer = self.app.get(address).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text);
        answer.json()
    }

    async fn page(&self, address: &str) -> Html {
        let answer = self.app.visit(address).await;
        assert_eq!(answer.status, StatusCode::OK, "{address}: {}", answer.text);
        let html = Html::parse_document(&answer.text);
        assert!(html.errors.is_empty(), "{address}: {:?}", html.errors);
        html
    }

    async fn delete(&self, address: &str) -> StatusCode {
        self.app.send(Request::delete(address).body(Body::empty()).unwrap()).await.status
    }
}

fn text(html: &Html, css: &str) -> String {
    html.select(&Selector::parse(css).unwrap()).flat_map(|e| e.text()).collect()
}

fn attribute(html: &Html, css: &str, name: &str) -> Option<String> {
    let found = html.select(&Selector::parse(css).unwrap()).next()?;
    found.value().attr(name).map(ToOwned::to_owned)
}

#[tokio::test]
async fn where_nothing_fires_the_page_says_what_is_watched_and_how_to_be_told() {
    let mut watched = Watched::start().await;
    let page = watched.page("/alerts").await;
    let said = text(&page, "main");
    assert!(said.contains("No alert fires") && said.contains("Not evaluated yet"), "{said}");
    assert!(said.contains("Without events there is nothing to watch"), "{said}");
    watched.live("checkout", 0).await;
    let page = watched.page("/alerts").await;
    let said = text(&page, "main");
    // What is exported but can't be evaluated here is named, so that the numbers don't disagree.
    let others: Vec<&str> =
        RULES.iter().filter(|rule| rule.watch == Watch::Absence).map(|rule| rule.name).collect();
    assert_eq!(others, ["RetrylensAbsent"]);
    let count = RULES.len() - others.len();
    assert!(said.contains(&format!("{count} rules over 1 pair of service and upstream")), "{said}");
    assert!(said.contains("One more, RetrylensAbsent, is for Prometheus and Grafana"), "{said}");
    assert_eq!(watched.json("/api/v1/alerts").await["rules"], count);
    assert!(said.contains("Evaluated at 2026-11-11 12:01:00 (8 s ago)"), "{said}");
    let export = attribute(&page, "a[href*='export/rules']", "href").unwrap();
    assert_eq!(watched.app.get(&export).await.status, StatusCode::OK);
    // An evaluator that stands still must not look like peace.
    watched.app.clock.advance(Millis(10 * MINUTE_MS));
    let said = text(&watched.page("/alerts").await, ".notice.bad");
    assert!(said.contains("Alerts were last evaluated 10 min ago"), "{said}");
    assert_eq!(watched.app.get("/alerts/12345").await.status, StatusCode::NOT_FOUND);
    let odd = watched.app.get("/api/v1/alerts?alert=Nothing").await;
    assert_eq!(odd.json()["parameter"], "alert", "{}", odd.text);
}

#[tokio::test]
async fn a_firing_alert_shows_its_numbers_its_chart_and_the_way_to_its_triage() {
    let mut watched = Watched::start().await;
    let id = watched.storm("checkout").await;
    let overview = watched.page("/").await;
    assert!(text(&overview, ".standing").contains("fire"), "{}", text(&overview, ".standing"));
    assert_eq!(attribute(&overview, ".standing a", "href").unwrap(), "/alerts");

    let list = watched.json("/api/v1/alerts").await;
    let states: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|a| a["state"].as_str().unwrap()).collect();
    let mut sorted = states.clone();
    sorted.sort_by_key(|state| ["firing", "pending", "resolved"].iter().position(|s| s == state));
    assert_eq!(states, sorted, "firing first, then pending, then what ended");
    assert_eq!(list["firing"], states.iter().filter(|s| **s == "firing").count());

    let one = watched.json(&format!("/api/v1/alerts/{id}")).await;
    let alert = &one["alert"];
    assert_eq!(
        [&alert["service"], &alert["upstream"], &alert["environment"], &alert["severity"]],
        ["checkout", "api.example.com", "prod", "critical"]
    );
    // The values of both windows beside their thresholds, as they made it fire and as they are.
    let reading = |minutes: i64| {
        let all = alert["readings"].as_array().unwrap().iter();
        all.clone().find(|r| r["minutes"] == minutes && r["made"]["whole"] != 1).unwrap().clone()
    };
    let (short, long) = (reading(5), reading(30));
    assert_eq!(
        (&short["made"]["limit"], &long["made"]["limit"]),
        (&json!("> 20%"), &json!("> 5%"))
    );
    for (reading, times) in [(&short, 5), (&long, 20)] {
        for side in [&reading["made"], &reading["latest"]] {
            let (part, whole) = (side["part"].as_i64().unwrap(), side["whole"].as_i64().unwrap());
            assert!(part >= 60 && part * times > whole && side["met"] == true, "{side}");
        }
    }
    // What is drawn is what was evaluated.
    let values = one["measured"]["values"].as_array().unwrap();
    let last = values.last().unwrap();
    assert_eq!(one["measured"]["threshold"], 0.2);
    assert_eq!(last["at"], alert["evaluated_at"]);
    assert_eq!(
        (&last["part"], &last["whole"]),
        (&short["latest"]["part"], &short["latest"]["whole"])
    );
    // The triage has absolute times, by time of receipt.
    let triage = alert["triage"].as_str().unwrap();
    for part in
        ["service=checkout", "upstream=api.example.com", "from=2026", "to=2026", "time=received"]
    {
        assert!(triage.contains(part), "{triage}");
    }
    assert!(text(&watched.page(triage).await, "h1").contains("checkout to api.example.com"));
    let changes: Vec<&str> =
        one["history"].as_array().unwrap().iter().map(|c| c["change"].as_str().unwrap()).collect();
    assert_eq!(changes, ["fired", "pended"], "newest first");
    assert_eq!(one["deliveries"][0]["state"], "waiting");
    assert_eq!(one["deliveries"][0]["receiver"], "pager");

    let page = watched.page(&format!("/alerts/{id}")).await;
    let said = text(&page, "main");
    for part in ["> 20 %", "> 5 %", "Fires since", "critical", "pager", "waiting"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(page.select(&Selector::parse("svg.chart-wide").unwrap()).count(), 1);
    let rows = page.select(&Selector::parse("details table tbody tr").unwrap()).count();
    assert_eq!(rows, values.len(), "the numbers behind the chart");
    let runbook = attribute(&page, "a[href^='/docs/alerts#']", "href").unwrap();
    let (path, anchor) = runbook.split_once('#').unwrap();
    assert!(!text(&watched.page(path).await, &format!("[id='{anchor}']")).is_empty());

    // It ends, and moves down.
    for _ in 0..25 {
        watched.live("checkout", 0).await;
    }
    let page = watched.page("/alerts?alert=Retrylens429Spike").await;
    assert!(text(&page, "#ended").contains("Ended"));
    assert!(text(&page, "main table").contains("Retrylens429Spike"), "{}", text(&page, "main"));
    let one = watched.json(&format!("/api/v1/alerts/{id}")).await;
    assert_eq!(
        (&one["alert"]["state"], &one["history"][0]["change"]),
        (&json!("resolved"), &json!("resolved"))
    );
    let none = watched.json("/api/v1/alerts?service=other").await;
    assert_eq!(none["total"], 0);
}

#[tokio::test]
async fn a_silence_holds_back_and_hides_nothing_and_an_acknowledgement_is_shown() {
    let mut watched = Watched::start().await;
    let id = watched.storm("checkout").await;
    let until = "2026-11-11T18:00:00Z";
    let silence = json!({"alert": "Retrylens429Spike", "service": "checkout", "who": "sam",
        "why": "known since the deploy", "until": until});
    let made = watched.app.post("/api/v1/silences", &silence).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
    let number = made.json()["id"].as_i64().unwrap();
    watched.live("checkout", 30).await;
    let one = watched.json(&format!("/api/v1/alerts/{id}")).await;
    assert_eq!(one["alert"]["state"], "firing", "still evaluated");
    assert_eq!(one["alert"]["evaluated_at"], UnixMillis(watched.minute * MINUTE_MS).to_rfc3339());
    assert_eq!(one["alert"]["silence"]["who"], "sam");
    assert_eq!(one["deliveries"][0]["state"], "held");
    let card = text(&watched.page("/alerts").await, &format!("#alert-{id}"));
    for part in ["silenced", "by sam until 2026-11-11 18:00:00", "known since the deploy"] {
        assert!(card.contains(part), "{part}: {card}");
    }
    let store = &watched.app.state.store;
    let due = store.take_due("pager", watched.app.clock.now(), Millis(60_000), 50).await.unwrap();
    assert!(due.iter().all(|due| due.alert_id != id), "held back: {due:?}");
    assert_eq!(watched.delete(&format!("/api/v1/silences/{number}")).await, StatusCode::NO_CONTENT);
    assert_eq!(watched.delete(&format!("/api/v1/silences/{number}")).await, StatusCode::NOT_FOUND);
    assert_eq!(watched.json("/api/v1/silences").await["items"], json!([]));
    let due = store.take_due("pager", watched.app.clock.now(), Millis(60_000), 50).await.unwrap();
    let due = due.iter().find(|due| due.alert_id == id).expect("told once the silence is over");
    let one = watched.json(&format!("/api/v1/alerts/{id}")).await;
    assert_eq!(one["deliveries"][0]["state"], "sending", "whoever took it is at it");
    assert_eq!(one["deliveries"][0]["next_at"], Value::Null);
    let next_at = watched.app.clock.now().plus(Millis(45_000));
    let error = "503 from <script>alert(1)</script>".to_owned();
    let failed = Sent::Failed { error, next_at };
    store.record_sent(due, &failed, watched.app.clock.now()).await.unwrap();
    let page = watched.page(&format!("/alerts/{id}")).await;
    assert!(text(&page, "main").contains("503 from <script>"), "escaped, and shown");
    assert_eq!(page.select(&Selector::parse("script").unwrap()).count(), 0);
    let one = watched.json(&format!("/api/v1/alerts/{id}")).await;
    assert_eq!(one["deliveries"][0]["attempts"], 1);
    assert_eq!(one["deliveries"][0]["next_at"], next_at.to_rfc3339());

    // By form, as the page has it.
    let back = watched.app.submit("/silences", &format!("back={id}&service=checkout&who=kim&why=night&for_minutes=120&until=&alert=&upstream=&environment=")).await;
    assert_eq!(back.status, StatusCode::SEE_OTHER, "{}", back.text);
    assert_eq!(back.header("location"), format!("/alerts/{id}#silences"));
    let listed = watched.json("/api/v1/silences").await;
    assert_eq!(listed["items"][0]["who"], "kim");
    let end = format!("/silences/{}/end", listed["items"][0]["id"]);
    assert_eq!(watched.app.submit(&end, "").await.header("location"), "/alerts#silences");
    let bad = watched.app.submit("/silences", "service=checkout&who=&why=x&for_minutes=120").await;
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    assert!(bad.text.contains("who: expected who wants it"), "{}", bad.text);

    let path = format!("/api/v1/alerts/{id}/acknowledge");
    let by = json!({"who": "kim", "why": "asking for a higher limit", "for_minutes": 60});
    let answer = watched.app.post(&path, &by).await;
    assert_eq!(answer.json()["acknowledged"]["who"], "kim", "{}", answer.text);
    let badges = text(&watched.page("/alerts").await, &format!("#alert-{id} .badges"));
    assert!(badges.contains("acknowledged"), "{badges}");
    assert_eq!(watched.delete(&path).await, StatusCode::NO_CONTENT);
    let answer = watched
        .app
        .submit(&format!("/alerts/{id}/acknowledge"), "who=kim&why=mine&for_minutes=30&until=")
        .await;
    assert_eq!(answer.header("location"), format!("/alerts/{id}"), "{}", answer.text);
    let answer = watched.app.submit(&format!("/alerts/{id}/withdraw"), "").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    for (body, field) in [
        (json!({"why": "x", "for_minutes": 60}), "who"),
        (json!({"who": "x", "for_minutes": 60}), "why"),
        (json!({"who": "x", "why": "y"}), "until"),
        (json!({"who": "x", "why": "y", "until": "2020-01-01T00:00:00Z"}), "until"),
    ] {
        let answer = watched.app.post(&path, &body).await;
        assert_eq!(
            (answer.status, answer.json()["parameter"].as_str()),
            (StatusCode::BAD_REQUEST, Some(field)),
            "{}",
            answer.text
        );
    }
    for _ in 0..25 {
        watched.live("checkout", 0).await;
    }
    assert_eq!(watched.app.post(&path, &by).await.status, StatusCode::CONFLICT, "it is over");
    for body in [by, json!({}), json!({"who": "kim", "until": "soon"})] {
        let missing = watched.app.post("/api/v1/alerts/99999/acknowledge", &body).await;
        assert_eq!(missing.status, StatusCode::NOT_FOUND, "whatever it says: {body}");
    }
    let missing = watched.app.submit("/alerts/99999/acknowledge", "who=kim").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_a_silence_and_an_acknowledgement_need_is_in_the_document() {
    let app = TestApp::start().await;
    let document = app.get("/api/openapi.json").await.json();
    for (schema, address) in [("SilenceRequest", "/api/v1/silences"), ("AcknowledgeRequest", "")] {
        let schema = &document["components"]["schemas"][schema];
        assert_eq!(schema["required"], json!(["who", "why"]), "{schema}");
        if address.is_empty() {
            continue;
        }
        for field in schema["required"].as_array().unwrap() {
            let mut body = json!({"service": "x", "who": "sam", "why": "x", "for_minutes": 60});
            body.as_object_mut().unwrap().remove(field.as_str().unwrap());
            let answer = app.post(address, &body).await;
            assert_eq!(
                (answer.status, &answer.json()["parameter"]),
                (StatusCode::BAD_REQUEST, field)
            );
        }
    }
}

#[tokio::test]
async fn a_receiver_that_is_sent_nothing_is_named_with_why() {
    let receivers = r#"[{name = "pager", kind = "slack", url = "https://hooks.example.com/one"}]"#;
    let app = TestApp::with(&[("receivers", receivers)]).await;
    let mut watched = Watched::of(app);
    let id = watched.storm("checkout").await;
    let (store, now) = (&watched.app.state.store, watched.app.clock.now());
    let key = watched.app.state.config.notify.receivers[0].key();
    // Its address of before said that it is gone; this one asks to wait.
    let before = ReceiverKey { address: "before".to_owned(), ..key.clone() };
    store.note_gone(&before, now).await.unwrap();
    let until = now.plus(Millis(90_000));
    store.hold_back(&key, until).await.unwrap();
    let held = |gone: Option<UnixMillis>, until: Option<UnixMillis>| {
        let at = |at: Option<UnixMillis>| at.map(UnixMillis::to_rfc3339);
        let is_lost =
            gone.is_some() || until.is_some_and(|until| until > now.plus(Millis(3_600_000)));
        json!([{"receiver": "pager", "gone_at": at(gone), "until": at(until), "is_lost": is_lost}])
    };
    let alerts = watched.json("/api/v1/alerts").await;
    assert_eq!(alerts["held"], held(None, Some(until)), "{alerts}");
    assert_eq!(alerts["waiting"][0]["next_at"], until.to_rfc3339());
    let page = text(&watched.page("/alerts").await, "main");
    assert!(page.contains("pager asked to be sent nothing before"), "{page}");
    assert!(!page.contains("410") && !page.contains("is told nothing"), "{page}");
    // For so long that somebody else must be told.
    let next_year = now.plus(Millis(31_536_000_000));
    store.hold_back(&key, next_year).await.unwrap();
    let alerts = watched.json("/api/v1/alerts").await;
    assert_eq!(alerts["held"], held(None, Some(next_year)), "{alerts}");
    let page = text(&watched.page("/alerts").await, ".notice.bad");
    assert!(page.contains("pager is told nothing before 2027-"), "{page}");
    store.note_gone(&key, now).await.unwrap();
    let alerts = watched.json("/api/v1/alerts").await;
    assert_eq!(alerts["held"], held(Some(now), None), "{alerts}");
    let one = watched.json(&format!("/api/v1/alerts/{id}")).await;
    assert_eq!(
        (&one["deliveries"][0]["state"], &one["deliveries"][0]["next_at"]),
        (&json!("waiting"), &Value::Null)
    );
    let page = text(&watched.page("/alerts").await, ".notice.bad");
    assert!(page.contains("pager is told nothing: it answered 410 Gone"), "{page}");
}

#[tokio::test]
async fn a_silence_that_matches_nothing_says_so() {
    let mut watched = Watched::start().await;
    watched.storm("checkout").await;
    for (field, name, note) in [
        ("service", "chekout", Some("Nothing was heard of service \u{201c}chekout\u{201d}")),
        ("upstream", "api.exampel.com", Some("Nothing was heard of upstream")),
        ("environment", "production", Some("Nothing was heard of environment")),
        ("alert", "RetrylensLayersMultiply", Some("No alert that fires or is pending is covered")),
        ("service", "checkout", None),
    ] {
        let silence = json!({field: name, "who": "sam", "why": "x", "for_minutes": 60});
        let made = watched.app.post("/api/v1/silences", &silence).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        let made = made.json();
        match note {
            Some(note) => {
                let said = made["note"].as_str().unwrap();
                assert!(said.starts_with(note), "{said}");
                let page =
                    text(&watched.page("/alerts").await, "section[aria-labelledby=silences]");
                assert!(page.contains(said), "{said}: {page}");
                let listed = watched.json("/api/v1/silences").await;
                assert_eq!(listed["items"][0]["note"], said);
            }
            None => assert_eq!(made["note"], Value::Null),
        }
        watched.delete(&format!("/api/v1/silences/{}", made["id"])).await;
    }
}

#[tokio::test]
async fn an_overview_with_pending_alerts_is_not_called_calm() {
    let mut watched = Watched::start().await;
    let standing = async |watched: &Watched| text(&watched.page("/").await, ".standing");
    for _ in 0..5 {
        watched.live("checkout", 0).await;
    }
    assert!(standing(&watched).await.contains("calm"), "{}", standing(&watched).await);
    let mut has_pended = false;
    for _ in 0..10 {
        watched.live("checkout", 30).await;
        let counts = watched.json("/api/v1/overview").await["alerts"].clone();
        let said = standing(&watched).await;
        let word = match (counts["firing"].as_i64(), counts["pending"].as_i64()) {
            (Some(0), Some(0)) => "calm",
            (Some(0), _) => "pending",
            _ => "firing",
        };
        has_pended |= word == "pending";
        assert!(said.trim_start().starts_with(word), "{word}: {said}");
    }
    assert!(has_pended);
}

#[tokio::test]
async fn enough_traffic_is_not_marked_as_a_bad_sign() {
    let mut watched = Watched::start().await;
    let id = watched.storm("checkout").await;
    let alert = watched.json(&format!("/api/v1/alerts/{id}")).await["alert"].clone();
    let readings = alert["readings"].as_array().unwrap();
    let floors = readings.iter().filter(|one| one["is_floor"] == true).count();
    assert!(floors > 0 && floors < readings.len(), "{alert}");
    let page = watched.page(&format!("/alerts/{id}")).await;
    let count = |css: &str| page.select(&Selector::parse(css).unwrap()).count();
    // Then and now.
    assert_eq!(count(".readings .side.plain"), 2 * floors);
    assert_eq!(count(".readings .side.finding"), 2 * (readings.len() - floors));
}

#[tokio::test]
async fn writes_go_through_the_doors_and_the_runbooks_need_no_login() {
    let app = TestApp::with(&[
        ("read_tokens", "a-read-token-of-length"),
        ("ingest_tokens", "a-send-token-of-length"),
    ])
    .await;
    let body = "service=checkout&who=sam&why=x&for_minutes=30";
    let foreign = Request::post("/silences")
        .header("content-type", "application/x-www-form-urlencoded")
        .header("origin", "https://evil.example.net");
    let answer = app.send(foreign.body(Body::from(body)).unwrap()).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text);
    assert_eq!(app.submit("/silences", body).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(app.get("/api/v1/alerts").await.status, StatusCode::UNAUTHORIZED);
    let page = app.visit("/docs/alerts").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("id=\"429-spike\""));
}

#[tokio::test]
async fn names_from_senders_stay_text() {
    let mut watched = Watched::start().await;
    let hostile = "<b onclick=x>\"'&{{7*7}}";
    let id = watched.storm(hostile).await;
    for address in ["/alerts".to_owned(), format!("/alerts/{id}")] {
        let page = watched.page(&address).await;
        assert!(text(&page, "main").contains(hostile), "{address}");
        assert_eq!(page.select(&Selector::parse("b, [onclick]").unwrap()).count(), 0, "{address}");
        let triage = attribute(&page, "a[href^='/triage?']", "href").unwrap();
        assert!(text(&watched.page(&triage).await, "h1").contains(hostile), "{triage}");
    }
}
