//! Links, paths of pages in sources, and the navigation of the site.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::{files, markdown, pages, project, text};

/// `a/../b` as `b`, without looking at the file system.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn links_and_anchors_resolve() {
    let mut bad = Vec::new();
    let mut number = 0;
    let packaged = text("debian/pgcalm.docs");
    let is_packaged = |path: &Path| packaged.lines().any(|line| path.starts_with(line));
    // There are copies of these by Debian's names.
    let renamed = [Path::new("LICENSE"), Path::new("CHANGELOG.md")];
    let mut all = pages();
    all.push("README.md".into());
    all.extend(crate::ROOT.map(String::from));
    for page in all {
        for link in markdown::links(&text(&page)) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            number += 1;
            let (path, anchor) = match link.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor)),
                None => (link.as_str(), None),
            };
            let target = if path.is_empty() {
                PathBuf::from(&page)
            } else {
                normal(&Path::new(&page).parent().unwrap().join(path))
            };
            if !project().join(&target).is_file() {
                bad.push(format!("{page}: {link} is no file"));
            } else if page.starts_with("docs/") && !target.starts_with("docs") {
                bad.push(format!("{page}: {link} is outside of the site"));
            } else if is_packaged(Path::new(&page)) && !is_packaged(&target) && !renamed.contains(&target.as_path()) {
                bad.push(format!("{page}: {link} is not in debian/pgcalm.docs"));
            } else if let Some(anchor) = anchor
                && !markdown::anchors(&text(target.to_str().unwrap())).contains(anchor)
            {
                bad.push(format!("{page}: {link}: no such heading"));
            }
        }
    }
    assert!(number > 100, "only {number} links");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Pages by their paths as other files name them.
fn named_pages(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("docs/").filter_map(|(start, _)| {
        let word = &text[start..];
        let end = word.find(|c: char| !(c.is_ascii_alphanumeric() || "-_./".contains(c))).unwrap_or(word.len());
        word[..end].split_inclusive(".md").next().filter(|path| path.ends_with(".md"))
    })
}

#[test]
fn pages_that_sources_name_are_there() {
    let mut sources = files("crates", &[".rs", ".h", ".c", ".toml", ".json", ".snap"]);
    sources.extend(files("extension", &[".c", ".h", ".sh", ".pl", ".pm", ".sql", "Makefile"]));
    sources.extend(files("bench", &[""]));
    sources.extend(files("debian", &[""]));
    sources.extend(files(".ci", &[""]));
    sources.push("Makefile".into());
    let mut named = BTreeSet::new();
    let mut bad = Vec::new();
    for source in sources {
        if source.starts_with("bench/results") || source.ends_with("documentation/site.rs") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(project().join(&source)) else { continue };
        for page in named_pages(&text) {
            named.insert(page.to_string());
            if !project().join(page).is_file() {
                bad.push(format!("{source}: {page}"));
            }
        }
    }
    assert!(named.len() > 10, "{named:?}");
    assert!(bad.is_empty(), "no such page:\n{}", bad.join("\n"));
    // a page that only tells where things are now is there for sources that name it
    for page in pages() {
        if text(&page).contains("<!-- moved -->") {
            assert!(named.contains(&page), "{page} can go: no source names it");
        }
    }
}

#[test]
fn every_page_is_in_the_navigation() {
    let navigation = text("mkdocs.yml");
    for page in pages() {
        let name = page.strip_prefix("docs/").unwrap();
        let moved = text(&page).contains("<!-- moved -->");
        let listed = navigation.lines().any(|line| line.ends_with(&format!(" {name}")));
        assert!(listed != moved, "mkdocs.yml: {name}");
    }
}

/// systemd makes the user and group of such a unit, and refuses to start it where a group of that name is there already.
#[test]
fn no_page_has_a_group_made_that_a_unit_makes() {
    let units = files("debian", &[".service"]).into_iter().map(|unit| text(&unit));
    let dynamic: Vec<String> = units.filter(|unit| unit.contains("\nDynamicUser=yes\n")).collect();
    let users = dynamic.iter().flat_map(|unit| unit.lines()).filter_map(|line| line.strip_prefix("User="));
    let mut number = 0;
    for user in users {
        number += 1;
        for page in pages() {
            assert!(!text(&page).contains(&format!(" -g {user} ")), "{page}: group {user}");
        }
    }
    assert!(number > 0, "no such unit");
}
