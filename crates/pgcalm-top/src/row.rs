//! Lines of the picture, of which a small terminal leaves out those that matter least.

use pgcalm_render::number::{ellipsis, printable};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::palette::Palette;

/// Columns of the names of sections.
pub const LABEL_WIDTH: usize = 12;

/// A line of a section.
#[derive(Debug, Clone)]
pub struct Row {
    /// Name of the section, which is printed before the first of its rows.
    pub section: String,
    /// Stands in the place of the section's name if this is not its first row.
    pub note: String,
    /// The rest.
    pub content: Line<'static>,
    /// How soon it is left out where there is no room: rows of the highest rank first, of those the last. 0: never, it
    /// is rather cut off at the end.
    pub rank: u8,
}

impl Row {
    /// A row of several styles.
    pub fn new(section: &str, rank: u8, spans: Vec<Span<'static>>) -> Self {
        Self { section: section.to_string(), note: String::new(), content: Line::from(spans), rank }
    }

    /// The row with a note below the section's name.
    pub fn with_note(mut self, note: &str) -> Self {
        self.note = note.to_string();
        self
    }

    /// A row of one style.
    pub fn text(section: &str, rank: u8, text: impl Into<String>, style: Style) -> Self {
        Self::new(section, rank, vec![Span::styled(text.into(), style)])
    }
}

/// The rows that fit into so many lines, in order.
pub fn fit(mut rows: Vec<Row>, height: usize) -> Vec<Row> {
    while rows.len() > height {
        let least = (0..rows.len()).max_by_key(|at| (rows[*at].rank, *at));
        match least {
            Some(at) if rows[at].rank > 0 => {
                rows.remove(at);
            }
            _ => {
                rows.truncate(height);
            }
        }
    }
    rows
}

/// The rows as lines with the names of their sections before them, no wider than `width`.
pub fn lines(rows: Vec<Row>, width: usize, palette: Palette) -> Vec<Line<'static>> {
    let mut former = String::new();
    rows.into_iter()
        .map(|row| {
            let (label, style) = if row.section == former {
                (&row.note, palette.secondary())
            } else {
                (&row.section, palette.heading())
            };
            let label = ellipsis(&printable(label), LABEL_WIDTH - 1);
            let mut spans = vec![Span::styled(field(&label, LABEL_WIDTH), style)];
            spans.extend(row.content.spans);
            former = row.section;
            cut(Line::from(spans), width)
        })
        .collect()
}

/// The line, with an ellipsis at the end if it was wider. Without control characters: names in it come from elsewhere,
/// and must not be able to steer the terminal.
pub fn cut(line: Line<'static>, width: usize) -> Line<'static> {
    let mut spans: Vec<Span> =
        line.spans.into_iter().map(|span| Span::styled(printable(&span.content), span.style)).collect();
    if spans.iter().map(Span::width).sum::<usize>() <= width {
        return Line::from(spans);
    }
    let mut room = width.saturating_sub(1);
    for span in &mut spans {
        let mut text = String::new();
        for character in span.content.chars() {
            let columns = Span::raw(character.to_string()).width();
            if columns > room {
                room = 0;
                break;
            }
            room -= columns;
            text.push(character);
        }
        span.content = text.into();
    }
    if width > 0 {
        spans.push(Span::raw("…"));
    }
    Line::from(spans)
}

/// Text in a field of so many columns, cut if it is longer.
pub fn field(text: &str, width: usize) -> String {
    let text = ellipsis(text, width);
    // As format! counts characters, and names may be of wide ones.
    let padding = width.saturating_sub(Span::raw(text.as_str()).width());
    text + &" ".repeat(padding)
}

/// Text at the right end of a field.
pub fn right(text: &str, width: usize) -> String {
    let padding = width.saturating_sub(Span::raw(text).width());
    " ".repeat(padding) + text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ranks: &[u8]) -> Vec<Row> {
        ranks.iter().enumerate().map(|(at, rank)| Row::text("S", *rank, at.to_string(), Style::new())).collect()
    }

    fn left(ranks: &[u8], height: usize) -> Vec<String> {
        fit(rows(ranks), height).iter().map(|row| row.content.to_string()).collect()
    }

    #[test]
    fn what_matters_least_is_left_out_first() {
        assert_eq!(left(&[0, 2, 1, 2, 0], 5), ["0", "1", "2", "3", "4"]);
        assert_eq!(left(&[0, 2, 1, 2, 0], 4), ["0", "1", "2", "4"]);
        assert_eq!(left(&[0, 2, 1, 2, 0], 2), ["0", "4"]);
        assert_eq!(left(&[0, 2, 1, 2, 0], 1), ["0"]);
        assert_eq!(left(&[0, 2], 0), [""; 0]);
    }

    #[test]
    fn a_section_is_named_once_even_if_its_first_row_is_left_out() {
        let rows = vec![
            Row::text("A", 3, "a1", Style::new()),
            Row::text("A", 0, "a2", Style::new()),
            Row::text("A", 0, "a3", Style::new()),
            Row::text("B", 0, "b", Style::new()),
        ];
        let lines: Vec<String> = lines(fit(rows, 3), 80, Palette::new(false)).iter().map(Line::to_string).collect();
        assert_eq!(lines, ["A           a2", "            a3", "B           b"]);
    }

    #[test]
    fn lines_are_cut_by_columns_and_say_so() {
        let cut = |text: &str, width| cut(Line::from(text.to_string()), width).to_string();
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdef", 5), "abcd…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(cut("a\u{1b}[2Jb", 10), "a [2Jb");
    }

    #[test]
    fn fields() {
        assert_eq!(field("ab", 4), "ab  ");
        assert_eq!(field("abcdef", 4), "abc…");
        assert_eq!(field("日本", 5), "日本 ");
        assert_eq!(right("ab", 4), "  ab");
        assert_eq!(right("abcdef", 4), "abcdef");
    }
}
