//! Access logs: their rules are documented.

use std::path::Path;

/// Each rule that reads logs names a heading of `docs/access-logs.md`, and stands below it.
#[test]
fn each_rule_about_logs_is_documented_where_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = std::fs::read_to_string(root.join("docs/access-logs.md")).unwrap();
    let section = |anchor: &str| {
        docs.split("\n## ").find(|section| {
            let heading = section.lines().next().unwrap_or_default().to_lowercase();
            heading.replace('\'', "").replace(' ', "-") == anchor
        })
    };
    let mut seen = 0;
    for folder in ["src/domain/access_log", "src/domain/classify"] {
        for file in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let anchors: Vec<&str> = source
                .split("docs/access-logs.md#")
                .skip(1)
                .filter_map(|rest| rest.split('"').next())
                .collect();
            for rule in source.split("Rule::new(\"LG-").skip(1) {
                let id = format!("LG-{}", rule.split('"').next().unwrap());
                let documented = anchors.iter().any(|anchor| {
                    let section = section(anchor);
                    section.is_some_and(|text| text.contains(&format!("| {id} |")))
                });
                assert!(documented, "{id} of {} below {anchors:?}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen}");
}
