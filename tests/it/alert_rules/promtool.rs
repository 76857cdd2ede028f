//! Debian's promtool, run on exported files.

use crate::support::prometheus::promtool;
use serde_json::{Value, json};

/// How many rules promtool counts in a rule file without any complaint.
pub(super) fn check(rules: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), rules).unwrap();
    let (is_fine, said) =
        promtool(folder.path(), &["check", "rules", "--lint=all", "--lint-fatal", "rules.yml"]);
    assert!(is_fine, "{said}");
    let counted = said.split_once("SUCCESS: ").and_then(|(_, rest)| rest.split(' ').next());
    counted.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

/// Runs `tests` over `rules`; what promtool said where they fail.
pub(crate) fn test(rules: &str, tests: &[Value]) -> Result<(), String> {
    assert!(!tests.is_empty());
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), rules).unwrap();
    // JSON is YAML too.
    let file = json!({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests});
    std::fs::write(folder.path().join("test.yml"), file.to_string()).unwrap();
    let (is_fine, said) = promtool(folder.path(), &["test", "rules", "test.yml"]);
    if is_fine { Ok(()) } else { Err(said) }
}
