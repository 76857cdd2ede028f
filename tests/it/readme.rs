//! What README.md promises, done to the letter.

use super::support::{Process, process};
use std::path::Path;
use std::process::{Command, Stdio};

const README: &str = include_str!("../../README.md");

/// The fenced block that holds `part`.
fn block(part: &str) -> String {
    README
        .split("```")
        .skip(1)
        .step_by(2)
        .find(|block| block.contains(part))
        .unwrap_or_else(|| panic!("README.md has no block with {part}"))
        .split_once('\n')
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn the_first_event_of_the_readme_is_stored_and_its_verdict_shown() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::serve(folder.path(), &[], &[]);
    let there = server.address.to_string();
    let command = block("/v1/events").replace("127.0.0.1:4290", &there);
    let sent = Command::new("sh").arg("-c").arg(&command).output().unwrap();
    let answer = String::from_utf8_lossy(&sent.stdout);
    assert!(answer.contains("\"stored\":1"), "{answer}{}", String::from_utf8_lossy(&sent.stderr));

    let page = README.split('<').find(|part| part.contains("/lookup?id=first-event")).unwrap();
    let path = page.split_once("4290").unwrap().1.split('>').next().unwrap();
    let mut shown = server.get(path);
    if let Some(target) = shown.lines().find_map(|line| line.strip_prefix("location: ")) {
        shown = server.get(target.trim());
    }
    assert!(shown.contains("Cloudflare") || shown.contains("cloudflare"), "{shown}");
    assert!(shown.contains("CF-2"), "the evidence is named");
}

#[test]
fn the_verdict_printed_in_the_readme_is_the_one_given() {
    let folder = tempfile::tempdir().unwrap();
    let answer = block("HTTP/2 429");
    let file = folder.path().join("answer.txt");
    std::fs::write(&file, answer.trim_end()).unwrap();
    let output = process::run(folder.path(), &["classify", file.to_str().unwrap()]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.trim(), block("Evidence for it").trim());
}

#[test]
fn every_file_and_target_that_the_readme_names_is_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let links: Vec<&str> = README
        .split("](")
        .skip(1)
        .filter_map(|part| part.split(')').next())
        .filter(|link| !link.starts_with("http"))
        .collect();
    assert!(links.len() > 5, "{links:?}");
    for link in links {
        assert!(top.join(link).exists(), "{link} is named in README.md and not there");
    }
    for target in ["test", "test-fast", "test-long"] {
        assert!(README.contains(&format!("make {target} ")), "{target}");
        let made = Command::new("make")
            .current_dir(top)
            .args(["--dry-run", target])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success(), "make {target}");
    }
}
