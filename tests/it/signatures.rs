//! Every signature keeps its promise: samples that it must claim, near misses that it must leave
//! alone, and a heading in `docs/signatures.md` that names each of its rules and their sources.
//!
//! A sample is a raw response with a head of comment lines:
//!
//! - `# shape: …` where the shape is documented or was measured (required);
//! - `# verdict: responder [limit-type [reached [outcome]]]` what is expected (required; `*` stands
//!   for anything);
//! - `# host: …`, `# path: …`, `# method: …` of the request, as far as it matters;
//! - `# provider: …` where the sender names the owner of the API.
//!
//! `claims-*.http` must be claimed by a rule of the folder's signature, `misses-*.http` must not.

use retrylens::domain::classify::{
    Says, SignatureInfo, Verdict, Weight, classify, signatures, summarize,
};
use retrylens::domain::response::Response;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/responses")
}

/// A sample as it stands in its file.
struct Sample {
    name: String,
    response: Response,
    shape: String,
    verdict: Vec<String>,
}

fn read(path: &Path) -> Sample {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let text = fs::read_to_string(path).unwrap();
    let (mut shape, mut verdict) = (String::new(), Vec::new());
    let (mut host, mut route, mut method, mut provider) = (None, None, None, None);
    let mut rest = text.as_str();
    while let Some(line) = rest.strip_prefix('#') {
        let (line, after) = line.split_once('\n').unwrap();
        let (key, value) = line.trim().split_once(':').unwrap_or_else(|| panic!("{name}: {line}"));
        let value = value.trim();
        match key {
            "shape" => value.clone_into(&mut shape),
            "verdict" => verdict = value.split_whitespace().map(ToOwned::to_owned).collect(),
            "host" => host = Some(value.to_owned()),
            "path" => route = Some(value.to_owned()),
            "method" => method = Some(value.to_owned()),
            "provider" => provider = Some(value.to_owned()),
            other => panic!("{name}: unknown comment {other:?}"),
        }
        rest = after;
    }
    let parsed = retrylens::ingest::response::parse(rest);
    let mut response =
        parsed.unwrap_or_else(|error| panic!("{}: {error}", path.display())).response;
    response.request.host = host;
    response.request.path = route;
    response.request.method = method;
    response.provider = provider;
    Sample { name, response, shape, verdict }
}

fn samples(id: &str, prefix: &str) -> Vec<Sample> {
    let Ok(entries) = fs::read_dir(root().join(id)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|e| e == "http")
            && path.file_name().unwrap().to_str().unwrap().starts_with(prefix)
    });
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

/// Whether a rule of this signature says who answered or which limit it was.
fn is_claimed(signature: &SignatureInfo, verdict: &Verdict) -> bool {
    let own = |rule: &str| signature.rules.iter().any(|(id, _)| *id == rule);
    verdict.evidence.iter().chain(&verdict.against).any(|e| {
        own(&e.rule) && (e.says == Says::Limit || (e.says == Says::At && e.weight != Weight::None))
    })
}

fn mismatch(sample: &Sample, verdict: &Verdict) -> Option<String> {
    let got = [
        verdict.returned_by.as_str(),
        verdict.limit_type.as_str(),
        verdict.reached_origin.as_str(),
        verdict.outcome.as_str(),
    ];
    let fits = sample.verdict.iter().zip(got).all(|(want, got)| want == "*" || want == got);
    (!fits).then(|| format!("want {:?}, got {got:?} ({})", sample.verdict, verdict.confidence))
}

#[test]
fn every_signature_claims_its_samples_and_leaves_its_near_misses() {
    let mut faults = Vec::new();
    for signature in signatures() {
        let id = signature.id;
        for (prefix, must_claim) in [("claims-", true), ("misses-", false)] {
            let samples = samples(id, prefix);
            if samples.len() < 3 {
                faults.push(format!("{id}: {} {prefix}*.http, at least 3 wanted", samples.len()));
            }
            for sample in samples {
                let name = format!("{id}/{}", sample.name);
                if sample.shape.is_empty() || sample.verdict.is_empty() {
                    faults.push(format!("{name}: `# shape:` and `# verdict:` are required"));
                }
                let verdict = classify(&sample.response);
                if is_claimed(&signature, &verdict) != must_claim {
                    let rules: Vec<_> =
                        verdict.evidence.iter().chain(&verdict.against).map(|e| &e.rule).collect();
                    faults.push(format!("{name}: claimed is not {must_claim}: {rules:?}"));
                }
                if let Some(fault) = mismatch(&sample, &verdict) {
                    faults.push(format!("{name}: {fault}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What is stored on the way in is decided without evidence in words; it says the same.
#[test]
fn the_stored_verdict_of_every_sample_is_the_one_that_pages_show() {
    let mut compared = 0;
    for signature in signatures() {
        let both = [samples(signature.id, "claims-"), samples(signature.id, "misses-")];
        for sample in both.into_iter().flatten() {
            let part = Response { headers_complete: false, ..sample.response.clone() };
            let bare = Response { body: None, ..part.clone() };
            for response in [sample.response, part, bare] {
                let (whole, stored) = (classify(&response), summarize(&response));
                let of_whole = (
                    (whole.returned_by, whole.layer, whole.outcome, whole.confidence),
                    (whole.limited, whole.limit_type, whole.reached_origin),
                );
                let of_stored = (
                    (stored.returned_by, stored.layer, stored.outcome, stored.confidence),
                    (stored.limited, stored.limit_type, stored.reached_origin),
                );
                assert_eq!(of_stored, of_whole, "{}/{}", signature.id, sample.name);
                compared += 1;
            }
        }
    }
    assert!(compared > 1_500, "{compared}");
}

#[test]
fn every_folder_of_samples_belongs_to_a_signature() {
    let known: Vec<&str> = signatures().iter().map(|s| s.id).collect();
    for entry in fs::read_dir(root()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()), "{name} is no signature");
    }
}

#[test]
fn every_rule_stands_in_the_documentation_under_its_signature() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/signatures.md");
    let text = fs::read_to_string(path).unwrap();
    let mut faults = Vec::new();
    for signature in signatures() {
        let heading = format!("\n## {}\n", signature.id);
        let Some((_, section)) = text.split_once(&heading) else {
            faults.push(format!("no heading {:?}", heading.trim()));
            continue;
        };
        let section = section.split("\n## ").next().unwrap_or_default();
        for (rule, source) in &signature.rules {
            if !section.contains(&format!("`{rule}`")) {
                faults.push(format!("{}: rule `{rule}` is not explained", signature.id));
            }
            if !section.contains(source) {
                faults.push(format!("{}: source {source} of `{rule}` is missing", signature.id));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn rules_have_ids_of_their_own() {
    let mut seen = std::collections::HashMap::new();
    for signature in signatures() {
        for (rule, source) in signature.rules {
            assert!(!source.is_empty(), "{rule} has no source");
            if let Some(other) = seen.insert(rule, signature.id) {
                panic!("{rule} belongs to {other} and {}", signature.id);
            }
        }
    }
}
