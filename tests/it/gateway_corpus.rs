//! Recorded refusals of gateways with what was true of each: are they judged right with their log
//! lines, and never sure of what is wrong?
//!
//! The recording lies outside of this project; `RETRYLENS_GATEWAYS_CORPUS` names its file
//! (`make score-gateways`). What it taught is held by unit tests, which always run.

use retrylens::domain::classify::{Certainty, Tri, Verdict, classify};
use retrylens::ingest::case;
use serde_json::Value;

/// Fields that say what was true, and nothing that anybody would know beforehand.
const TRUTH: [&str; 5] = ["scenario", "kind", "tags", "note", "label"];
/// What the origin itself knows.
const OF_ORIGIN: [&str; 3] = ["origin_log", "origin_saw_request", "origin_saw_request_id"];
const RECOMMENDED: &str = "access_log_json";
const STOCK: &str = "access_log_default";
const INNER: &str = "inner_hops";

/// How often judgements are right.
#[derive(Debug, Default)]
struct Score {
    all: usize,
    responder: usize,
    reached: usize,
    /// Sure of the wrong one.
    sure_and_wrong: Vec<String>,
    /// A number of hidden retries that is not the true one.
    retries_wrong: Vec<String>,
    retries_told: usize,
}

fn judged(record: &Value, without: &[&str]) -> Verdict {
    let mut line = record.clone();
    let object = line.as_object_mut().unwrap();
    for field in TRUTH.iter().chain(without) {
        object.remove(*field);
    }
    classify(&case::read_value(line).unwrap().response)
}

fn score(records: &[Value], without: &[&str]) -> Score {
    let mut score = Score { all: records.len(), ..Score::default() };
    for record in records {
        let (id, label) = (record["id"].as_str().unwrap(), &record["label"]);
        let verdict = judged(record, without);
        let is_right = label["returned_by"] == verdict.returned_by.as_str();
        score.responder += usize::from(is_right);
        if !is_right && matches!(verdict.outcome, Certainty::Certain | Certainty::Confident) {
            score.sure_and_wrong.push(id.to_owned());
        }
        let reached = match verdict.reached_origin {
            Tri::Yes => "yes",
            Tri::No => "no",
            Tri::Unknown => "unknown",
        };
        score.reached += usize::from(label["reached_origin"] == reached);
        if let Some(told) = verdict.hidden_retries {
            score.retries_told += 1;
            if label["hidden_retries"] != told {
                score.retries_wrong.push(format!("{id}: {told} of {}", label["hidden_retries"]));
            }
        }
    }
    score
}

#[test]
#[expect(clippy::print_stderr, reason = "the table is for people")]
#[ignore = "needs the captures; `make score-gateways` runs it"]
fn captured_refusals_are_judged_by_their_log_lines() {
    let file =
        std::env::var("RETRYLENS_GATEWAYS_CORPUS").expect("RETRYLENS_GATEWAYS_CORPUS: a file");
    let text = std::fs::read_to_string(file).unwrap();
    let records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.len() > 100, "{} records", records.len());
    let with = |more: &[&'static str]| [&OF_ORIGIN, more].concat();
    let whole = score(&records, &[]);
    let gateway = score(&records, &with(&[]));
    let stock = score(&records, &with(&[RECOMMENDED]));
    let answer = score(&records, &with(&[RECOMMENDED, STOCK, INNER]));
    for (told, score) in [
        ("all logs", &whole),
        ("gateways' logs", &gateway),
        ("stock lines", &stock),
        ("no logs", &answer),
    ] {
        eprintln!(
            "{told}: responder {} of {}, reached {}, sure and wrong {:?}, retries told {}, wrong {:?}",
            score.responder,
            score.all,
            score.reached,
            score.sure_and_wrong,
            score.retries_told,
            score.retries_wrong
        );
        assert_eq!((&score.sure_and_wrong, &score.retries_wrong), (&vec![], &vec![]), "{told}");
    }
    assert!(whole.responder * 100 >= whole.all * 97, "{whole:?}");
    assert!(whole.reached * 100 >= whole.all * 96, "{whole:?}");
}
