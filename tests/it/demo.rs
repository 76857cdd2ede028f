//! The demo tells the truth: its causes are known, and the eight steps find them.

use crate::support::{Process, TestApp};
use retrylens::cli::demo::{self, story};
use retrylens::domain::checklist::{
    self, Answer, AnswerState, Finding, GradeMark, ReportCard, Step,
};
use retrylens::domain::stored::{Scope, TimeBasis, View};
use retrylens::domain::time::{UnixMillis, Window};

const END: &str = "2026-11-11T12:00:00Z";

struct Told {
    app: TestApp,
    story: story::Story,
}

impl Told {
    async fn load() -> Self {
        let app = TestApp::start().await;
        let story = story::tell(UnixMillis::parse_rfc3339(END).unwrap(), 1);
        demo::load(&app.state, &story, |now| app.clock.set(now)).await.unwrap();
        Self { app, story }
    }

    async fn facts(&self, service: Option<&str>, upstream: Option<&str>) -> checklist::Facts {
        let view = View {
            scope: Scope {
                service: service.map(str::to_owned),
                upstream: upstream.map(str::to_owned),
                ..Scope::default()
            },
            window: Window { from: self.story.from, to: self.story.to },
            time: TimeBasis::Event,
        };
        self.app.state.store.facts(&view, self.story.to).await.unwrap()
    }

    async fn answers(&self, service: &str, upstream: &str) -> Vec<Answer> {
        checklist::answers(&self.facts(Some(service), Some(upstream)).await)
    }

    async fn card(&self, service: &str) -> ReportCard {
        checklist::report_card(&self.facts(Some(service), None).await)
    }
}

fn step(answers: &[Answer], step: Step) -> &Answer {
    answers.iter().find(|answer| answer.step == step).unwrap()
}

fn finding<'a>(answers: &'a [Answer], id: &str) -> &'a Finding {
    answers.iter().flat_map(|answer| &answer.findings).find(|f| f.id == id).unwrap_or_else(|| {
        let all: Vec<String> = answers
            .iter()
            .flat_map(|answer| &answer.findings)
            .map(|f| format!("{}: {}", f.id, f.text))
            .collect();
        panic!("no finding {id} among\n{}", all.join("\n"))
    })
}

fn has(answers: &[Answer], id: &str) -> bool {
    answers.iter().flat_map(|answer| &answer.findings).any(|f| f.id == id)
}

#[tokio::test]
async fn the_cdns_rule_is_told_from_the_origin_behind_it() {
    let told = Told::load().await;

    let answers = told.answers("checkout", "api.example.com").await;
    let source = step(&answers, Step::Source);
    assert!(source.headline.starts_with("cloudflare returned"), "{}", source.headline);
    assert!(source.headline.contains("confident"), "{}", source.headline);
    finding(&answers, "not-seen-by-origin");
    assert!(!has(&answers, "several-responders"));
    assert!(finding(&answers, "limit-rate").actionable);
    assert!(finding(&answers, "scope-key").actionable);
    let window = finding(&answers, "window-from-first-request");
    assert!(window.text.contains("is not aligned with the clock"), "{}", window.text);
    assert!(finding(&answers, "exact-retry-after").actionable);
    let leave = finding(&answers, "leave-attempts");
    assert!(leave.text.contains("CDN (cloudflare)"), "{}", leave.text);
    assert!(leave.text.contains("not fixed by more application retries"), "{}", leave.text);
    finding(&answers, "leave-origin");
    assert!(!has(&answers, "leave-edge"));

    let answers = told.answers("storefront", "api.example.com").await;
    let source = step(&answers, Step::Source);
    assert!(source.headline.starts_with("The origin returned"), "{}", source.headline);
    let seen = finding(&answers, "seen-by-origin");
    assert!(seen.text.contains("It answered them itself."), "{}", seen.text);
    assert!(finding(&answers, "scope-route").actionable);
    finding(&answers, "window-on-clock");
    finding(&answers, "leave-edge");
    assert!(!has(&answers, "leave-attempts"));

    let both = checklist::answers(&told.facts(None, Some("api.example.com")).await);
    let several = finding(&both, "several-responders");
    assert!(several.text.contains("cloudflare") && several.text.contains("origin"));
}

#[tokio::test]
async fn the_marked_change_is_seen_to_help() {
    let told = Told::load().await;
    let answers = told.answers("checkout", "api.example.com").await;
    let verify = step(&answers, Step::Verify);
    assert_eq!(verify.state, AnswerState::Clear, "{}", verify.headline);
    assert!(verify.headline.contains(told.story.change), "{}", verify.headline);
    finding(&answers, "change-better");
}

#[tokio::test]
async fn two_layers_that_retry_are_named_with_their_factor() {
    let told = Told::load().await;
    let answers = told.answers("catalog-sync", "catalog.example.net").await;
    let source = step(&answers, Step::Source);
    assert!(source.headline.starts_with("aws-api-gateway returned"), "{}", source.headline);
    let double = finding(&answers, "double-layer-retry");
    assert!(double.text.contains("sdk 3 × app 4 = up to 12 attempts"), "{}", double.text);
    for id in ["fixed-delay", "no-jitter", "retry-budget", "retries-spend-window"] {
        assert!(finding(&answers, id).actionable, "{id}");
    }
    finding(&answers, "fix-one-retry-layer");
    let ladder = told.app.state.store.operation(&told.story.longest_operation).await.unwrap();
    assert_eq!(ladder.events.len(), 12);
}

#[tokio::test]
async fn the_smaller_mistakes_are_found_too() {
    let told = Told::load().await;
    let answers = told.answers("billing", "payments.example.net").await;
    for (id, rows) in [
        ("write-without-idempotency-key", 10),
        ("idempotency-key-changes", 10),
        ("idempotency-key-two-bodies", 20),
        ("conflict-after-retry", 10),
        ("retry-of-permanent", 10),
    ] {
        assert_eq!(finding(&answers, id).rows_total, rows, "{id}");
    }
    let answers = told.answers("notifier", "push.example.org").await;
    let clipped = finding(&answers, "delay-clipped");
    assert!(clipped.text.contains("30 s") && clipped.text.contains("2 min"), "{}", clipped.text);
    assert!(finding(&answers, "early-retries").actionable);
    let answers = told.answers("importer", "files.example.org").await;
    finding(&answers, "wait-unit-suspect");
}

#[tokio::test]
async fn the_report_cards_grade_as_the_story_was_told() {
    let told = Told::load().await;
    // (service, mistakes that it makes, mistakes that it does not make)
    let expected: [(&str, &[u8], &[u8]); 5] = [
        ("checkout", &[2], &[3, 5, 8]),
        ("storefront", &[], &[2, 3, 5, 7, 8]),
        ("catalog-sync", &[1, 8], &[3, 5]),
        ("billing", &[5, 7], &[8]),
        ("importer", &[3], &[5, 8]),
    ];
    for (service, made, not_made) in expected {
        let card = told.card(service).await;
        let mark = |number: u8| {
            let grade = card.mistakes.iter().find(|grade| grade.number == number).unwrap();
            (grade.mark, grade.evidence.clone())
        };
        for number in made {
            assert_eq!(mark(*number).0, GradeMark::Fail, "{service} {number}: {}", mark(*number).1);
        }
        for number in not_made {
            assert_ne!(mark(*number).0, GradeMark::Fail, "{service} {number}: {}", mark(*number).1);
        }
    }
}

#[test]
fn the_command_loads_serves_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut process = Process::serve(
        folder.path(),
        &["demo", "--end", END],
        &[("TMPDIR", temporary.to_str().unwrap())],
    );
    for (says, word) in [
        ("hit by one key", "cloudflare"),
        ("behind the same CDN", "origin"),
        ("both retry", "up to 12 attempts"),
    ] {
        let lines: Vec<&str> = process.greeting.lines().collect();
        let at = lines.iter().position(|line| line.contains(says)).unwrap();
        let (_, path) = lines[at + 1].split_once("127.0.0.1:").unwrap();
        let path = path.trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(path.contains("from=2026-11-11T11:00:00.000Z"), "{path}");
        let page = process.get(path);
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        assert!(page.contains(word), "{says}: {word} is not on {path}");
    }
    process.signal("TERM");
    assert!(process.wait().success());
    let logged = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert_eq!(logged, "", "an hour that is played in seconds is no news");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn settings_are_flags_as_with_serve_and_nothing_else_counts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.toml"), "[alerts]\nalert_min_requests = 51\n").unwrap();
    let mut process = Process::serve(
        folder.path(),
        &[
            "demo",
            "--end",
            END,
            "--set",
            "read_tokens=demo-reader-0123456789",
            "--public-url",
            "https://lens.example.com",
            "--config",
            "own.toml",
        ],
        // Not of this command: it would be refused as no number.
        &[("RETRYLENS_MAX_CONNECTIONS", "many")],
    );
    assert!(process.get("/api/v1/alerts").starts_with("HTTP/1.1 401"), "the token counts");
    process.signal("TERM");
    assert!(process.wait().success());
    for (arguments, said) in [
        (vec!["demo", "--set", "colour=blue"], "colour (flag) is not a setting"),
        (vec!["demo", "--database-url", "sqlite://own.db"], "the demo has a database of its own"),
        (vec!["demo", "--set", "database_url=sqlite://own.db"], "the demo has a database"),
    ] {
        let output = crate::support::process::run(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(said), "{errors}");
    }
    assert!(!folder.path().join("own.db").exists());
    let help = crate::support::process::run(folder.path(), &["demo", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("--listen") && !help.contains("--database-url"), "{help}");
}

#[test]
fn the_events_can_be_had_as_ndjson() {
    let folder = tempfile::tempdir().unwrap();
    let printed = crate::support::process::run(folder.path(), &["demo", "--print", "--end", END]);
    let text = String::from_utf8(printed.stdout).unwrap();
    let story = story::tell(UnixMillis::parse_rfc3339(END).unwrap(), 1);
    assert_eq!(text.lines().count(), story.events.len());
    assert_eq!(text.lines().next().unwrap(), story.events[0].to_string());
}
