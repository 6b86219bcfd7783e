//! Figures must be those of the results that their paragraph, item or row links to, and what was measured must name some.

use std::path::Path;

use crate::{markdown, pages, project, text};

/// Pages of results; each says with which build, kernel and server, and when, it was measured.
const RESULTS: [&str; 5] = ["arena-quick.md", "ablations.md", "short-queue.md", "flush-hints.md", "kernel-settings.md"];

/// Pages of reference that nobody measured; all others there were.
const LOOKED_UP: [&str; 8] = [
    "commands.md",
    "doctor-rules.md",
    "exit-codes.md",
    "json.md",
    "lab-trouble.md",
    "metrics.md",
    "settings.md",
    "views.md",
];

/// Units that a figure has if somebody measured it. Seconds are none: what the code bounds has them.
const UNITS: [&str; 8] = ["TPS", "ms", "ns", "×", "times", "%", "crashes", "commits"];

/// Words in the head of a table whose figures somebody measured.
const HEADS: [&str; 6] = ["TPS", "ms", "mean", "worst", "p99", "p99.9"];

/// What has such a unit and is set by the code: page, and words of the paragraph, item or row.
const SET_BY_THE_CODE: [(&str, &str); 5] = [
    ("docs/operate/costs.md", "a block 20 times a second"),
    ("docs/guides/lab.md", "3 % of mean TPS"),
    ("docs/guides/lab.md", "off its profile by more than 3 %"),
    ("docs/guides/lab.md", "70 % reads"),
    ("docs/guides/guard.md", "keeps 2 % free"),
];

fn is_of_results(path: &str) -> bool {
    RESULTS.iter().any(|results| path.ends_with(results))
}

/// Whether a block links to a section of results: in the whole page any number is found.
fn links_to_a_section(block: &str) -> bool {
    markdown::links(block).iter().any(|link| link.split_once('#').is_some_and(|(path, _)| is_of_results(path)))
}

/// Of server, kernel, date and the module's build, which a text names.
fn named(text: &str) -> [bool; 4] {
    let after = |word: &str| text.split(word).skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    // a time may follow
    let is_date = |word: &str| {
        let date = word.split('T').next().unwrap();
        date.len() == 10
            && date.chars().enumerate().all(|(at, c)| if [4, 7].contains(&at) { c == '-' } else { c.is_ascii_digit() })
    };
    let is_build = |word: &str| word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
    let has_build = words.clone().any(is_build) || text.contains("build not recorded");
    [after("PostgreSQL "), after("Linux "), words.any(is_date), has_build]
}

/// Whether a text says with what it was measured: "PostgreSQL 15.20, Linux 6.18.44, pg_calm 260903bf9461, 2026-11-27".
fn names_its_build(text: &str) -> bool {
    named(text) == [true; 4]
}

/// What stands before the first section of a page, and the sections, each in one line.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut code = false;
    for line in text.lines() {
        code ^= line.starts_with("```");
        if !code && line.starts_with("## ") {
            parts.push(String::new());
        }
        for word in line.split_whitespace() {
            let part = parts.last_mut().unwrap();
            part.push_str(word);
            part.push(' ');
        }
    }
    parts
}

/// What of server, kernel, date and build a part of a page of results lacks; the build only where the module was in it.
fn lacks(part: &str) -> Vec<&'static str> {
    let [server, kernel, date, build] = named(part);
    // the path is in the commands for stock, too
    let told = part.replace("extension/pg_calm", "");
    let build = build || !["pg_calm", "guard"].iter().any(|module| told.contains(module));
    [("server", server), ("kernel", kernel), ("date", date), ("build", build)]
        .into_iter()
        .filter(|(_, is_there)| !is_there)
        .map(|(what, _)| what)
        .collect()
}

/// What a page of results lacks: a part says all of what it was measured with, or nothing, where the page's beginning says it.
fn mistakes(page: &str) -> Vec<String> {
    let parts = parts(page);
    let all_of_it = lacks(&parts[0]).is_empty();
    let mut number = 0;
    let mut bad = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let lacks = lacks(part);
        number += usize::from(lacks.is_empty());
        let is_silent = named(part) == [false; 4] && (at == 0 || all_of_it);
        if !lacks.is_empty() && !is_silent {
            bad.push(format!("{}… lacks {}", part.chars().take(60).collect::<String>(), lacks.join(", ")));
        }
    }
    if number == 0 && bad.is_empty() {
        bad.push("no part says what it was measured with".to_string());
    }
    bad
}

#[test]
fn pages_of_measurements_say_with_what() {
    let mut measured = pages();
    measured.retain(|page| page.strip_prefix("docs/reference/").is_some_and(|name| !LOOKED_UP.contains(&name)));
    assert!(measured.len() > 10, "{measured:?}");
    let bad: Vec<String> = measured
        .iter()
        .flat_map(|page| mistakes(&text(page)).into_iter().map(move |mistake| format!("{page}: {mistake}")))
        .collect();
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn what_a_page_of_measurements_lacks() {
    let stock = "PostgreSQL 15.20; Linux\n6.18.44; 2026-11-27";
    let ours = "PostgreSQL 15.20; Linux 6.18.44; pg_calm\n260903bf9461; 2026-11-27";
    assert_eq!(mistakes(stock), [""; 0]);
    assert_eq!(mistakes(&format!("# A\n```text\n{ours}T10:00:00Z\n```\n## B\n1 ms of pg_calm\n")), [""; 0]);
    assert_eq!(mistakes(&format!("# A\nas below\n## B\n{stock}\n## C\n{ours}\n")), [""; 0]);
    assert_eq!(mistakes(&format!("{stock}; the guard; build not recorded")), [""; 0]);
    for bad in [
        "# A\n1 ms\n".to_string(),
        format!("# A\n{stock}, pg_calm\n"),
        format!("# A\n{}\n", stock.replace("Linux", "")),
        format!("# A\n{}\n", stock.replace("15.20", "")),
        format!("# A\n{}\n", stock.replace("-27", "")),
        format!("# A\n1 ms\n## B\n{stock}\n## C\n2 ms\n"),
        format!("# A\n{ours}\n## B\nthe guard, PostgreSQL 15.20, Linux 6.18.44, 2026-11-30\n"),
    ] {
        assert_eq!(mistakes(&bad).len(), 1, "{bad}: {:?}", mistakes(&bad));
    }
}

/// Whether somebody measured a figure of a paragraph, an item or a row below the head of its table.
fn is_measured(block: &str, head: &str) -> bool {
    let plain = |text: &str| without_links(text).split('`').step_by(2).collect::<String>();
    let text = plain(block);
    let words: Vec<&str> = text.split_whitespace().collect();
    let ends = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric() && !['×', '%'].contains(&c)).to_string();
    let has_digit = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    words.windows(2).any(|pair| has_digit(pair[0]) && UNITS.contains(&ends(pair[1]).as_str()))
        || words.windows(3).any(|three| three[..2] == ["TPS", "of"] && has_digit(three[2]))
        || (!figures(block.trim()).is_empty()
            && plain(head).split_whitespace().any(|word| HEADS.contains(&ends(word).as_str())))
}

#[test]
fn what_was_measured_names_its_results() {
    for results in pages().iter().filter(|page| is_of_results(page)) {
        assert!(blocks(&text(results)).iter().any(|block| names_its_build(block)), "{results}: of which build?");
    }
    let mut number = 0;
    let mut bad = Vec::new();
    let mut all = pages();
    // what is made from the code names its results in words: see below
    all.retain(|page| !page.starts_with("docs/reference/") && !page.ends_with("arena-quick.md"));
    all.push("README.md".into());
    all.extend(crate::ROOT.map(String::from));
    for page in all {
        let blocks = blocks(&text(&page));
        let page_names_it = blocks.iter().any(|block| names_its_build(block));
        let mut head = "";
        for block in &blocks {
            let is_row = block.starts_with('|');
            if !is_row {
                head = "";
            }
            let is_set = SET_BY_THE_CODE.iter().any(|(of, what)| page == *of && block.contains(what));
            if is_measured(block, head) && !is_set {
                number += 1;
                if !page_names_it && !links_to_a_section(block) {
                    bad.push(format!("{page}: {block}"));
                }
            }
            if is_row && head.is_empty() {
                head = block;
            }
        }
    }
    assert!(number > 10, "only {number} figures");
    assert!(
        bad.is_empty(),
        "link to a section of results, or say \"PostgreSQL 15.20, Linux 6.18.44, pg_calm BUILD, YYYY-MM-DD\":\n{}",
        bad.join("\n")
    );
}

/// Numbers of two digits and more: with one, anything is found anywhere.
fn numbers(text: &str) -> Vec<String> {
    text.replace(',', "")
        .split(|c: char| !(c.is_ascii_digit() || c == '.'))
        .map(|number| number.trim_matches('.').to_string())
        .filter(|number| number.len() > 1)
        .collect()
}

/// A text without the texts and targets of its links.
fn without_links(text: &str) -> String {
    let mut parts = text.split('[');
    let mut rest = parts.next().unwrap_or_default().to_string();
    for part in parts {
        rest.push_str(part.split_once(')').map_or(part, |(_, after)| after));
    }
    rest
}

/// Numbers of the cells of a row after the first, which says what was run.
fn figures(row: &str) -> Vec<String> {
    let cells = row.trim_matches('|').split('|').skip(1);
    cells.flat_map(|cell| numbers(&without_links(cell))).collect()
}

/// Numbers of a paragraph or an item of a list outside of code; with two digits they may count anything.
fn figures_of_prose(text: &str) -> Vec<String> {
    let text: String = without_links(text).split('`').step_by(2).collect();
    let mut figures = numbers(&text);
    figures.retain(|figure| figure.len() > 2);
    figures
}

/// Paragraphs, items of lists and rows of tables.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in markdown::prose(text) {
        let begins = ["- ", "|", "#"].iter().any(|start| line.starts_with(start));
        if line.is_empty() || begins {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().unwrap();
        block.push_str(line);
        block.push(' ');
    }
    blocks
}

#[test]
fn figures_are_those_of_the_results_that_they_name() {
    let mut bad = Vec::new();
    let mut number = 0;
    let mut all = pages();
    all.push("README.md".into());
    for page in all {
        if is_of_results(&page) {
            continue;
        }
        for block in blocks(&text(&page)) {
            for link in markdown::links(&block) {
                let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
                if !is_of_results(path) {
                    continue;
                }
                let file = project().join(Path::new(&page).parent().unwrap()).join(path);
                let results = std::fs::read_to_string(&file).unwrap();
                let results = if anchor.is_empty() {
                    results
                } else {
                    markdown::section(&results, anchor).unwrap_or_else(|| panic!("{page}: {link}"))
                };
                let known = numbers(&results);
                let figures = if block.starts_with('|') { figures(block.trim()) } else { figures_of_prose(&block) };
                for figure in figures {
                    number += 1;
                    if !known.contains(&figure) {
                        bad.push(format!("{page}: {figure} is not in {link}: {block}"));
                    }
                }
            }
        }
    }
    assert!(number > 10, "only {number} figures");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// What a results section's first table has for a contestant, by the heads of its columns; of two with one head the first.
fn measured(section: &str, contestant: &str, head: &str) -> Option<String> {
    let mut lines = section.lines();
    let heads = lines.find(|line| line.starts_with("contestant ") && line.contains(" mean "))?.replace("at 0", "at-0");
    let column = heads.split_whitespace().skip(1).position(|name| name == head)?;
    let row = lines.find(|line| line.split_whitespace().next() == Some(contestant))?;
    row.split_whitespace().nth(column + 1).map(String::from)
}

/// Of "Table fits; 7.04 ms (16.5)": pg_calm's figure, and stock's.
fn remark(cell: &str) -> Option<(String, String)> {
    let (_, after) = cell.rsplit_once("; ")?;
    let mut figures = numbers(after).into_iter();
    let pair = (figures.next()?, figures.next()?);
    (after == format!("{} ms ({})", pair.0, pair.1)).then_some(pair)
}

/// A row of the README's results: heads of its table, cells, and the section that it links to.
struct Row {
    heads: Vec<String>,
    cells: Vec<String>,
    anchor: String,
    section: String,
}

impl Row {
    /// What is wrong with a figure that is shown for a contestant.
    fn mistake(&self, contestant: &str, column: &str, shown: &str) -> Option<String> {
        let known = measured(&self.section, contestant, column);
        (known.as_deref() != Some(shown))
            .then(|| format!("{}: {contestant}, {column}: {shown}, measured was {known:?}", self.anchor))
    }
}

fn rows_of_the_readme() -> Vec<Row> {
    let readme = text("README.md");
    let mut heads = Vec::new();
    let mut rows = Vec::new();
    for line in markdown::prose(&readme).filter(|line| line.starts_with('|')) {
        let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect();
        if cells.iter().any(|cell| cell == "stock mean") {
            heads = cells;
            continue;
        }
        let links = markdown::links(line);
        let Some((path, anchor)) = links.first().and_then(|link| link.split_once('#')) else { continue };
        if heads.len() == cells.len() && is_of_results(path) {
            let section =
                markdown::section(&text(path), anchor).unwrap_or_else(|| panic!("README.md: {path}#{anchor}"));
            rows.push(Row { heads: heads.clone(), cells, anchor: anchor.to_string(), section });
        }
    }
    rows
}

/// A number that is anywhere in a section may still stand in the wrong column, or for the wrong contestant.
#[test]
fn figures_of_the_readme_are_in_their_places() {
    let mut number = 0;
    let mut bad = Vec::new();
    for row in rows_of_the_readme() {
        for (head, cell) in row.heads.iter().zip(&row.cells) {
            if let Some((contestant, column)) = head.split_once(' ')
                && ["stock", "pg_calm"].contains(&contestant)
            {
                number += 1;
                let column = column.split(' ').next().unwrap();
                let shown = cell.replace(['*', ','], "");
                bad.extend(row.mistake(contestant, column, &shown));
            }
        }
    }
    assert!(number >= 16, "only {number} figures");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// What is said of a row beside its columns, in its first cell.
#[test]
fn remarks_of_the_readme_are_as_measured() {
    let mut number = 0;
    let mut bad = Vec::new();
    for row in rows_of_the_readme() {
        assert!(row.heads[0].ends_with("longest transaction (stock's)"), "{}", row.heads[0]);
        if let Some((ours, stocks)) = remark(&row.cells[0]) {
            number += 1;
            bad.extend(row.mistake("pg_calm", "max", &ours));
            bad.extend(row.mistake("stock", "max", &stocks));
        }
    }
    assert!(number > 3, "only {number} remarks");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// An effect that has a figure names the results that have it.
#[test]
fn effects_of_rules_are_those_of_the_results_that_they_name() {
    let rules = text("docs/reference/doctor-rules.md");
    let mut number = 0;
    let mut bad = Vec::new();
    for line in rules.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (rule, effect) = (cells[1].trim_matches('`'), cells[7]);
        let named = pages().into_iter().filter(|page| is_of_results(page) && effect.contains(page));
        let known: Vec<String> = named.flat_map(|page| numbers(&text(&page))).collect();
        for figure in figures_of_prose(effect) {
            number += 1;
            if !known.contains(&figure) {
                bad.push(format!("{rule}: {figure} is in no results that it names: {effect}"));
            }
        }
    }
    assert!(number > 3, "only {number} figures");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Names and values of a source's constants: `#define NAME 0.5`.
fn constants(source: &str) -> Vec<(&str, f64)> {
    let defines = source.lines().filter_map(|line| line.strip_prefix("#define "));
    defines
        .filter_map(|define| define.split_once(' '))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

#[test]
fn the_table_of_constants_is_the_controllers() {
    let source = text("extension/pg_calm/src/writeback/controller.c");
    let page = text("docs/internals/how-it-works.md");
    let mut shown = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        let names = cells[1].split('`').skip(1).step_by(2);
        let values = cells[2].split(|c: char| !(c.is_ascii_digit() || c == '.')).filter_map(|value| value.parse().ok());
        shown.extend(names.zip(values));
    }
    // what is far beyond any measure is none
    let known: Vec<(&str, f64)> = constants(&source).into_iter().filter(|(_, value)| *value < 1e9).collect();
    assert_eq!(shown, known, "docs/internals/how-it-works.md (left) against controller.c (right)");
}

/// Bounds of waits: file of the module, what it has there, and what the page makes of it.
const BOUNDS: [(&str, &str, &str); 7] = [
    ("archive/archive_jobs.c", "#define WORKER_SILENT_MS 30000", "46 s of silence"),
    ("checkpoint/checkpoint_hold.c", "#define MOST_TIMEOUTS 4", "| four times that, then as in stock;"),
    ("checkpoint/drain.c", "#define LEAST_TIMEOUT_MS 30000", "least 30 s"),
    ("checkpoint/drain.c", "#define WAL_PART 0.5", "half the time until WAL asks"),
    ("guard/guard.h", "#define GUARD_SILENT_MS 5000", "a guard silent for 5 s"),
    ("interpose/io_hooks.c", "#define FSYNC_PATIENCE_MS (calm_worker_timeout * 5 / 2)", "EIO after 5 s"),
    ("shared/test_settings.c", "int calm_worker_timeout = 2000;", "a worker silent for 2 s"),
];

/// Files of the module in which a process sleeps, and the page's row about it; none where the process is the module's own.
const WAITS: [(&str, Option<&str>); 11] = [
    ("archive/archive.c", Some("| archiver: ")),
    ("archive/archive_jobs.c", Some("| archiver: ")),
    ("archive/archive_worker.c", None),
    ("checkpoint/checkpoint_hold.c", Some("| checkpointer, at a flush hint: ")),
    ("checkpoint/drain.c", Some("| checkpointer, before a data file's fsync: ")),
    ("errors/error_latch.c", Some("| any process, after a data file's fsync: ")),
    ("guard/guard.c", None),
    ("guard/guard_hold.c", Some("| session: ")),
    ("wal/wal_ahead.c", None),
    ("worker/worker.c", None),
    ("writeback/cleaner.c", None),
];

#[test]
fn the_table_of_waits_is_the_modules() {
    let page = text("docs/internals/how-it-works.md");
    let module = "extension/pg_calm/src/";
    for (file, bound, words) in BOUNDS {
        assert!(
            text(&format!("{module}{file}")).contains(bound),
            "{file} has no {bound}: is the page's {words:?} true?"
        );
        assert!(page.contains(words), "the page has no {words:?}: {file}: {bound}");
    }
    let sleeping = crate::files(module.trim_end_matches('/'), &[".c"]);
    let sleeping = sleeping.iter().filter(|file| {
        let source = text(file);
        ["WaitLatch(", "usleep("].iter().any(|call| source.contains(call))
    });
    let sleeping: Vec<&str> = sleeping.map(|file| file.strip_prefix(module).unwrap()).collect();
    assert_eq!(sleeping, WAITS.map(|(file, _)| file), "who sleeps (left) and whom the page knows of");
    for (file, row) in WAITS {
        assert!(row.is_none_or(|row| page.contains(row)), "{file}: no row {row:?}");
    }
}

#[test]
fn what_counts_as_measured() {
    for measured in [
        "It makes 4,374 TPS.",
        "TPS of 3634",
        "1.7 to 2.2 times stock's",
        "118 ms, stock's 48.5",
        "2 × as much",
        "less by 3 %.",
        "288 crashes",
        "none of 1,000 commits",
    ] {
        assert!(is_measured(measured, ""), "{measured}");
    }
    for not in ["`latency=0.5 ms`", "PostgreSQL 15 to 18", "within 5 s", "many times", "[9 ms](x.md)"] {
        assert!(!is_measured(not, ""), "{not}");
    }
    assert!(is_measured("| drain | 2660 |", "| without | TPS |"));
    assert!(!is_measured("| drain | 2660 |", "| setting | value |"));
    let build = "PostgreSQL 15.20; Linux 6.18.44; pg_calm 260903bf9461; 2026-11-27";
    assert!(names_its_build(build));
    for missing in ["15.20", "6.18.44", "260903bf9461", "2026-11-27"] {
        assert!(!names_its_build(&build.replace(missing, "")), "{missing}");
    }
}

#[test]
fn figures_of_a_row() {
    assert_eq!(
        figures("| 800 IOPS | 1,578 (377) | 5.4 × | 0 | 26 ([16](arena-quick.md)) 27 |"),
        ["1578", "377", "5.4", "26", "27"]
    );
    assert_eq!(figures_of_prose("a 12 of 1,234 `56789` ([7777](x.md))"), ["1234"]);
    assert_eq!(blocks("a\nb\n\nc\n- d\n  e\n| f |\n").len(), 4);
    assert_eq!(remark("[gp3, 4 GB](a.md#b); 463 ms (61.4)"), Some(("463".into(), "61.4".into())));
    let section = "        TPS  TPS secs  ms\ncontestant mean p5  at 0 p99 max\n───\nstock  5302  7  1  2.31 66.2\n       [1..2]\npg_calm 5848 8 0 2.34 66.8\n";
    assert_eq!(measured(section, "pg_calm", "p99").as_deref(), Some("2.34"));
    assert_eq!(measured(section, "stock", "max").as_deref(), Some("66.2"));
    assert_eq!(measured(section, "stock-tuned", "mean"), None);
}
