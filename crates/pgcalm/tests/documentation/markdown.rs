//! As much of Markdown as the tests need.

use std::collections::BTreeSet;

/// Lines outside of code blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !fence && !code
    })
}

/// A line without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// Targets of links and images.
pub(crate) fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap();
            let target = target.split(' ').next().unwrap();
            found.push(target.to_string());
        }
    }
    found
}

/// What a heading is called in a link, if GitHub and MkDocs call it the same.
fn anchor(heading: &str) -> Option<String> {
    let kept: String = heading.to_lowercase().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect();
    let github = kept.trim().replace(' ', "-");
    let mut mkdocs = String::new();
    for c in github.chars() {
        if c != '-' || !mkdocs.ends_with('-') {
            mkdocs.push(c);
        }
    }
    (github == mkdocs && github.is_ascii()).then_some(github)
}

/// Headings with their texts as they are shown.
pub(crate) fn headings(text: &str) -> Vec<String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().replace('`', "");
            // of a link only its text is shown
            match heading.split_once("](") {
                Some((before, after)) => {
                    let after = after.split_once(')').map_or("", |(_, after)| after);
                    format!("{}{after}", before.replacen('[', "", 1))
                }
                None => heading,
            }
        })
        .collect()
}

pub(crate) fn anchors(text: &str) -> BTreeSet<String> {
    headings(text).iter().filter_map(|heading| anchor(heading)).collect()
}

/// The part below a heading that has this anchor, up to the next one of its level or above.
pub(crate) fn section(text: &str, wanted: &str) -> Option<String> {
    let mut found: Option<(usize, String)> = None;
    let mut code = false;
    for line in text.lines() {
        code ^= line.starts_with("```");
        let level = line.chars().take_while(|c| *c == '#').count();
        if level > 0 && !code {
            match &found {
                Some((outer, _)) if level <= *outer => break,
                None if anchor(&line.trim_start_matches('#').replace('`', "")).as_deref() == Some(wanted) => {
                    found = Some((level, String::new()));
                }
                _ => {}
            }
        }
        if let Some((_, section)) = &mut found {
            section.push_str(line);
            section.push('\n');
        }
    }
    found.map(|(_, section)| section)
}

pub(crate) fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn anchors_are_those_of_both() {
    assert_eq!(anchor("The kernel's `x`: what?").as_deref(), Some("the-kernels-x-what"));
    assert_eq!(anchor("One + two"), None);
}

#[test]
fn code_has_no_links() {
    assert_eq!(links("a [b](c.md#d) `[e](f)`\n```\n[g](h)\n```\n![i](j.svg \"k\")"), ["c.md#d", "j.svg"]);
}

#[test]
fn a_section_ends_with_the_next() {
    let text = "# A\n## B\nb\n### C\nc\n## D\nd\n";
    assert_eq!(section(text, "b").unwrap(), "## B\nb\n### C\nc\n");
    assert_eq!(section(text, "e"), None);
}
