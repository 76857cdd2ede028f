//! Who may look at whom (STYLE.md, section 4), read from the source itself.

use std::path::{Path, PathBuf};

/// A room of `src/`, what it may not name, and why.
const RULES: &[(&str, &[&str], &str)] = &[
    (
        "domain",
        &[
            "crate::app",
            "crate::cli",
            "crate::clock",
            "crate::config",
            "crate::export",
            "crate::ingest",
            "crate::pipeline",
            "crate::shutdown",
            "crate::store",
            "crate::telemetry",
            "crate::web",
            "tracing",
            "tokio",
            "axum",
            "askama",
            "sqlx",
            "reqwest",
            "opentelemetry",
            "std::env",
            "std::fs",
            "std::net",
            "std::io",
            "SystemTime",
            "Instant",
            "rand::",
            "async fn",
            "serde_json::to_",
        ],
        "the judgement is pure: no clock, no IO, no log, no environment, no async",
    ),
    (
        "ingest",
        &[
            "crate::app",
            "crate::cli",
            "crate::config",
            "crate::export",
            "crate::pipeline",
            "crate::store",
            "crate::web",
            "tokio",
            "axum",
            "sqlx",
            "reqwest",
            "async fn",
            "std::env",
            "std::fs",
            "std::net",
            "SystemTime::now",
        ],
        "bytes to values: knows neither the web nor the store",
    ),
    (
        "metrics",
        &[
            "crate::app",
            "crate::cli",
            "crate::clock",
            "crate::config",
            "crate::pipeline",
            "crate::store",
            "crate::telemetry",
            "crate::web",
            "tokio",
            "tracing",
            "axum",
            "opentelemetry",
            "async fn",
        ],
        "counts what it is handed",
    ),
    (
        "store",
        &[
            "crate::app",
            "crate::cli",
            "crate::ingest",
            "crate::metrics",
            "crate::pipeline",
            "crate::web",
            "axum",
        ],
        "speaks domain types",
    ),
    (
        "export",
        &["crate::app", "crate::cli", "crate::pipeline", "crate::web", "axum", "sqlx", "reqwest"],
        "writes for other tools from domain types",
    ),
    (
        "pipeline",
        &["crate::app", "crate::cli", "crate::web", "axum", "sqlx", "reqwest"],
        "sits below the web",
    ),
    (
        "notify",
        &["crate::app", "crate::cli", "crate::pipeline", "crate::web", "axum", "sqlx"],
        "sends what it is handed",
    ),
    ("web", &["crate::app", "crate::cli", "sqlx", "reqwest"], "sits below the app"),
    ("app.rs", &["crate::cli", "sqlx", "reqwest"], "sits below the command line"),
];

/// A crate, and the only rooms that may name it.
const OWNERS: &[(&str, &[&str])] = &[
    ("axum", &["web"]),
    ("askama", &["web"]),
    ("hyper", &["web"]),
    ("tower", &["web"]),
    ("sqlx", &["store"]),
    ("reqwest", &["telemetry", "notify"]),
    ("opentelemetry_otlp", &["telemetry"]),
    ("opentelemetry_sdk", &["telemetry"]),
    ("opentelemetry_proto", &["telemetry"]),
    ("opentelemetry_appender_tracing", &["telemetry"]),
    ("prost", &["telemetry"]),
    ("anyhow", &["cli", "main.rs"]),
    ("clap", &["cli", "main.rs"]),
];

/// The source of a file without its comments and its tests, which may do as they like.
fn code(path: &Path) -> String {
    if path.ends_with("tests.rs") {
        return String::new();
    }
    let text = std::fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    if folder.is_file() {
        found.push(folder.to_owned());
        return;
    }
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "rs") {
            files(&path, found);
        }
    }
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Whether `code` names `word` as a path of its own and not as the end of a longer name.
fn names(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code.get(..at).and_then(|text| text.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|text| text.chars().next());
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let starts = !before.is_some_and(|c| is_part(c) || c == '"' || c == '.' || c == '=');
        let ends = word.ends_with(':') || word.ends_with('_') || !after.is_some_and(is_part);
        starts && ends
    })
}

#[test]
fn rooms_look_only_at_what_lies_below_them() {
    for (room, forbidden, why) in RULES {
        let mut found = Vec::new();
        files(&source().join(room), &mut found);
        assert!(!found.is_empty(), "{room} is empty");
        for path in found {
            let code = code(&path);
            for word in *forbidden {
                assert!(!names(&code, word), "{} names {word}, but {room} {why}", path.display());
            }
        }
    }
}

#[test]
fn each_outside_world_has_one_room_that_knows_it() {
    let mut found = Vec::new();
    files(&source(), &mut found);
    for path in found {
        let below = path.strip_prefix(source()).unwrap();
        let room = below.iter().next().unwrap().to_str().unwrap();
        let code = code(&path);
        for (name, owners) in OWNERS {
            let is_named = names(&code, &format!("{name}::"));
            assert!(!is_named || owners.contains(&room), "{} names {name}", path.display());
        }
    }
}

#[test]
fn only_the_clock_reads_the_wall_clock() {
    let mut found = Vec::new();
    files(&source(), &mut found);
    for path in found.iter().filter(|path| !path.ends_with("clock.rs")) {
        let code = code(path);
        for word in ["SystemTime::now", "Timestamp::now", "Zoned::now"] {
            assert!(!code.contains(word), "{} names {word}", path.display());
        }
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    let mut found = Vec::new();
    files(&source(), &mut found);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//! "), "{} begins without //!", path.display());
    }
}
