//! What a verb says, as one document of blocks: text, page, Markdown and lines of tabs are renderings of it, written here once.
//!
//! A verb fills a [`Document`] from its model and knows nothing of how it will look. What only a page has room for is put into
//! [`Section::on_page`] or [`Block::Details`]; Markdown has it, too, a terminal has not.

mod html;
mod markdown;
mod tabs;
mod terminal;

use std::collections::BTreeMap;

use maud::Markup;

use crate::chart::Chart;
use crate::number::{MISSING, short};

/// All that is said.
#[derive(Debug, Default)]
pub struct Document {
    /// Who says it, e.g. `pgcalm lab`.
    pub by: String,
    /// What it is about, e.g. the name of a scenario.
    pub subject: String,
    /// When, as it is shown.
    pub time: String,
    /// Heading of a page; the first of `readings` where there is none.
    pub title: Option<String>,
    /// What the figures say in sentences. A page has them above the first section, a terminal below it.
    pub readings: Vec<String>,
    /// Under which conditions, in lines of phrases.
    pub conditions: Vec<Vec<String>>,
    /// In their order.
    pub sections: Vec<Section>,
    /// Words that a page explains before the figures.
    pub terms: &'static [(&'static str, &'static str)],
    /// What a page ends with, e.g. data for its tooltips; its presence lets the page run its own scripts.
    pub scripts: Option<Markup>,
}

/// Blocks under a heading.
#[derive(Debug, Default)]
pub struct Section {
    /// A terminal does without that of the first section.
    pub heading: String,
    /// In their order.
    pub blocks: Vec<Block>,
    /// Whether a terminal has no room for it.
    pub only_on_page: bool,
}

/// A part of a section.
#[derive(Debug)]
pub enum Block {
    /// A heading within the section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A paragraph that explains.
    Note(String),
    /// What is to be typed; no terminal breaks it, so that it can be copied.
    Command(String),
    /// Figures.
    Table(Table),
    /// Charts: one by itself, more beside one another. A page has them, nothing else.
    Charts(Vec<Chart>),
    /// What is folded on a page under this summary; a terminal leaves it out.
    Details(String, Vec<Block>),
    /// What a page alone can show.
    Page(Markup),
    /// What is shown instead of that where there is no page.
    Elsewhere(Vec<Block>),
}

/// Rows of cells. One without rows is left out.
#[derive(Debug, Default)]
pub struct Table {
    /// Left to right.
    pub columns: Vec<Column>,
    /// As many cells as there are columns.
    pub rows: Vec<Vec<String>>,
    /// Name and value: a page shows no header.
    pub is_pairs: bool,
    /// Rows that a terminal has room for; all without.
    pub most_in_terminal: Option<usize>,
    /// What a terminal says between rows, each text before the row with this index.
    pub between: Vec<(usize, String)>,
}

/// A column of a table.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// In short lines.
    pub heading: String,
    /// What its figures mean, in one sentence; a page lists these under "Terms".
    pub meaning: &'static str,
    /// How it is shown.
    pub kind: Kind,
    /// Class of the heading on a page, e.g. the colour of a contestant.
    pub class: Option<String>,
}

/// How the cells of a column are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// To the right.
    #[default]
    Figure,
    /// To the left.
    Text,
    /// Names of functions, a line each.
    Stack,
    /// A share between 0 and 1 as a bar.
    Bar,
}

impl Document {
    /// An empty one.
    pub fn new(by: &str, subject: &str, time: &str) -> Self {
        Self { by: by.to_string(), subject: subject.to_string(), time: time.to_string(), ..Self::default() }
    }

    /// Adds a section and gives it to be filled.
    pub fn section(&mut self, heading: &str) -> &mut Section {
        self.sections.push(Section { heading: heading.to_string(), ..Section::default() });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    /// For a terminal; every line ends in a newline.
    pub fn text(&self) -> String {
        terminal::document(self)
    }

    /// One self-contained file.
    pub fn html(&self) -> String {
        html::document(self)
    }

    /// For a repository's documents.
    pub fn markdown(&self) -> String {
        markdown::document(self)
    }

    /// The tables alone, for awk and spreadsheets: cells with tabs between, an empty line between tables.
    pub fn tabs(&self) -> String {
        tabs::document(self)
    }

    /// All tables, those in details too.
    fn tables(&self) -> Vec<&Table> {
        fn of(blocks: &[Block]) -> Vec<&Table> {
            let tables = blocks.iter().map(|block| match block {
                Block::Table(table) => vec![table],
                Block::Details(_, blocks) | Block::Elsewhere(blocks) => of(blocks),
                _ => Vec::new(),
            });
            tables.flatten().filter(|table| !table.rows.is_empty()).collect()
        }
        self.sections.iter().flat_map(|section| of(&section.blocks)).collect()
    }
}

impl Section {
    /// Leaves it out in a terminal.
    pub fn on_page(&mut self) -> &mut Self {
        self.only_on_page = true;
        self
    }

    /// Adds a block.
    pub fn add(&mut self, block: Block) -> &mut Self {
        self.blocks.push(block);
        self
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Heading(text.into()))
    }

    /// Adds a paragraph.
    pub fn text(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Text(text.into()))
    }

    /// Adds a paragraph that explains.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(Block::Note(text.into()))
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.add(Block::Table(table))
    }

    /// Adds what is folded on a page.
    pub fn details(&mut self, summary: impl Into<String>, blocks: Vec<Block>) -> &mut Self {
        self.add(Block::Details(summary.into(), blocks))
    }

    /// For a terminal; every line ends in a newline.
    pub fn terminal(&self) -> String {
        terminal::section(self)
    }

    /// For a page.
    pub fn markup(&self) -> Markup {
        html::section(self)
    }
}

impl Table {
    /// One without rows.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), ..Self::default() }
    }

    /// Names and values.
    pub fn pairs(values: &BTreeMap<String, String>) -> Self {
        let rows = values.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect();
        Self { rows, is_pairs: true, ..Self::new(["name", "value"].map(Column::text)) }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl Column {
    /// Of figures.
    pub fn figures(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Of words.
    pub fn text(heading: impl Into<String>) -> Self {
        Self { kind: Kind::Text, ..Self::figures(heading) }
    }

    /// Of names of functions.
    pub fn stack(heading: impl Into<String>) -> Self {
        Self { kind: Kind::Stack, ..Self::figures(heading) }
    }

    /// With what its figures mean.
    pub fn meaning(self, meaning: &'static str) -> Self {
        Self { meaning, ..self }
    }

    /// Heading in one line.
    fn line(&self) -> String {
        self.heading.replace('\n', " ").trim().to_string()
    }
}

/// A figure as a cell.
pub fn figure(value: Option<f64>) -> String {
    value.map_or(MISSING.to_string(), short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let mut document = Document::new("pgcalm lab", "archive", "2026-11-27");
        document.readings = vec!["a is fast".into(), "b is <slow>".into()];
        document.conditions = vec![vec!["ext4".into(), "2 clients".into()], vec!["Linux".into()]];
        let mut table = Table::new([
            Column::text("name"),
            Column::figures("files\n/s").meaning("Files per second."),
            Column::stack("in"),
        ]);
        table.row(["a|\u{1b}b".into(), figure(Some(2.0)), "fsync\nwrite".into()]);
        table.row(["b".into(), figure(None), String::new()]);
        document.section("Comparison").table(table).note("Medians.");
        document.section("More").text("what follows").table(Table::new([Column::text("nothing")]));
        let pairs = Table::pairs(&BTreeMap::from([("fsync".to_string(), "off".to_string())]));
        document.section("Servers").on_page().heading("a").details("Settings", vec![Block::Table(pairs)]);
        document
    }

    #[test]
    fn a_terminal_has_figures_first_and_nothing_that_only_a_page_has() {
        let text = document().text().replace('─', "");
        assert_eq!(
            text,
            "archive, 2026-11-27\next4; 2 clients\nLinux\n\n      files\nname     /s  in\n\na| b      2  fsync < write\nb         –\n\n\
             Medians.\na is fast\nb is <slow>\n\nMore\nwhat follows\n"
        );
    }

    #[test]
    fn a_page_has_all_of_it_escaped_and_explains_its_figures() {
        let page = document().html();
        for part in [
            "<h1>a is fast</h1><p class=\"reading\">b is &lt;slow&gt;</p>",
            "<p class=\"conditions\">ext4 · 2 clients</p>",
            "<th scope=\"col\" title=\"Files per second.\">files /s</th>",
            "<th class=\"text\" scope=\"row\">a|",
            "<td class=\"stack\"><code>fsync</code> <code>write</code> </td>",
            "<details><summary>Settings</summary>",
            "<h2>Terms</h2><dl><dt>files /s</dt><dd>Files per second.</dd></dl>",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(!page.contains("nothing") && !page.contains("script-src"), "{page}");
    }

    #[test]
    fn markdown_has_all_but_charts_and_no_cell_ends_early() {
        let markdown = document().markdown();
        for part in [
            "# a is fast\n\nb is &lt;slow>\n",
            "\n## Comparison\n\n| name | files /s | in |\n|---|---:|---|\n",
            "| a\\| b | 2 | fsync, write |\n| b | – |  |\n\nMedians.\n",
            "\n## Servers\n\n### a\n\n**Settings**\n\n| name | value |\n|---|---|\n| fsync | off |\n",
        ] {
            assert!(markdown.contains(part), "{part}\n{markdown}");
        }
    }

    #[test]
    fn lines_of_tabs_have_the_tables_alone() {
        assert_eq!(
            document().tabs(),
            "name\tfiles /s\tin\na| b\t2\tfsync < write\nb\t–\t\n\nname\tvalue\nfsync\toff\n"
        );
    }

    #[test]
    fn a_table_that_is_too_wide_is_drawn_narrower() {
        let mut table = Table::new((0..27).map(|_| Column::figures("ab")));
        table.row((0..27).map(|_| "123".to_string()));
        let mut section = Section::default();
        section.table(table);
        assert_eq!(section.terminal().trim_end().lines().last().unwrap().trim(), vec!["123"; 27].join(" "));
        let mut table = Table::new(std::iter::once(Column::text("name")).chain((0..40).map(|_| Column::figures("ab"))));
        table.row(std::iter::once("somebody".to_string()).chain((0..40).map(|index| index.to_string())));
        let mut section = Section::default();
        section.table(table);
        let drawn = section.terminal();
        let rows: Vec<&str> = drawn.lines().filter(|line| line.starts_with("somebody")).collect();
        let figures: Vec<&str> = rows.iter().flat_map(|row| row.split_whitespace().skip(1)).collect();
        assert_eq!(figures, (0..40).map(|index| index.to_string()).collect::<Vec<_>>(), "{drawn}");
        assert_eq!(rows.len(), 2, "{drawn}");
        let mut table = Table::new([Column::text("a"), Column::text("b")]);
        table.row(["word ".repeat(60), "word ".repeat(60)]);
        let mut section = Section::default();
        section.table(table);
        assert!(section.terminal().lines().all(|line| line.chars().count() <= 110), "{}", section.terminal());
    }
}
