//! The dictionary as a page for people: `docs/headers.md` is this text, and a test holds it there.

use super::{FAMILIES, HOSTS, SIGNATURES};

const INTRODUCTION: &str = "\
# Rate-limit header fields

What retrylens knows about the header fields in which servers speak of limits and waits. This page
is written from the dictionary that the program reads them with, so it says what the program does.

The same name has different units at different owners. Whose field it is, is decided in this order:

1. `host`: the documentation of the host's owner (last table but one).
2. `companions`: other fields of the same response that only this owner sends (last table).
3. `name`: a name that only one owner has, or that a standard defines.
4. `shape`: the shape of the value, marked as a guess. From 1e12 on it is milliseconds since 1970,
   from 1e9 on seconds since 1970, below 1e5 seconds from now; `6m0s` is a duration, and written
   dates are dates.
5. `none`: the unit stays unknown. Between 1e5 and 1e9 a number may be seconds or milliseconds.

A value that cannot be what its owner documents is never bent to fit: its unit is unknown, and a
note says so. Moments are measured against the response's `Date`, and against the observer's clock
only where there is none. What a cache has held has its `Age` subtracted.

In names, `<period>` stands for `second`, `minute`, `hour`, `day`, `month` or `year`; other words in
angle brackets stand for a name of the sender's choice.
";

/// The dictionary as Markdown.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for family in FAMILIES {
        line(&mut page, format_args!("\n## {}\n\n{}\n", family.title, family.note));
        line(&mut page, format_args!("| Field | Owner | States | Unit | Meaning | Source |"));
        line(&mut page, format_args!("| --- | --- | --- | --- | --- | --- |"));
        for entry in family.entries {
            line(
                &mut page,
                format_args!(
                    "| `{}` | {} | {} | {} | {} | {} |",
                    entry.name, entry.owner, entry.kind, entry.unit, entry.meaning, entry.source
                ),
            );
        }
    }
    line(
        &mut page,
        format_args!(
            "\n## Hosts\n\nThe longest pattern decides. A host of a platform's customers is \
             nobody's API: the answer may be the customer's own.\n\n| Host | Path | Owner |\n\
             | --- | --- | --- |"
        ),
    );
    for rule in HOSTS {
        let path = if rule.path.is_empty() { String::new() } else { format!("`{}`", rule.path) };
        let owner = rule.provider.unwrap_or("customers of the platform");
        line(&mut page, format_args!("| `{}` | {path} | {owner} |", rule.host));
    }
    line(&mut page, format_args!("\n## Companions\n\n| Owner | Needs |\n| --- | --- |"));
    for signature in SIGNATURES {
        line(&mut page, format_args!("| {} | {} |", signature.owner, signature.needs));
    }
    page
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.push_str(&text.to_string());
    page.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/headers.md");

    #[test]
    fn the_page_says_what_the_dictionary_says() {
        let page = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/headers.md is out of date; run \
             `cargo test --lib write_the_header_page -- --ignored`"
        );
    }

    #[test]
    #[ignore = "writes docs/headers.md"]
    fn write_the_header_page() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
        std::fs::write(PAGE, markdown()).unwrap();
    }

    #[test]
    fn no_cell_breaks_its_table() {
        for family in FAMILIES {
            for entry in family.entries {
                for cell in [entry.name, entry.owner, entry.meaning, entry.source] {
                    assert!(!cell.is_empty() && !cell.contains(['|', '\n']), "{cell:?}");
                }
                assert!(entry.meaning.ends_with('.'), "{:?}", entry.meaning);
            }
        }
    }
}
