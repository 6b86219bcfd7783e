//! Bars and curves of block characters.

/// Eighths of a column from the left; none is a space.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Heights of a line. The lowest stands for zero, so that it differs from nothing known, which is a space.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A bar of `share`, 0 to 1, of `width` columns, filled up with spaces.
pub fn bar(share: f64, width: usize) -> String {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    let mut eighths = (share * width as f64 * 8.0).round() as usize;
    if share > 0.0 {
        // Little is not nothing.
        eighths = eighths.max(1).min(width * 8);
    }
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    let columns = eighths.div_ceil(8);
    text + &" ".repeat(width.saturating_sub(columns))
}

/// A bar on a track, so that the whole can be seen.
pub fn gauge(share: f64, width: usize) -> String {
    let bar = bar(share, width);
    let filled = bar.trim_end();
    let track = width.saturating_sub(filled.chars().count());
    filled.to_string() + &"·".repeat(track)
}

/// A column per value, the highest for `top` and more.
pub fn curve(values: &[Option<f64>], top: f64) -> String {
    values
        .iter()
        .map(|value| match value {
            Some(value) if value.is_finite() => {
                let share = if top > 0.0 { value / top } else { 0.0 };
                let height = (share.clamp(0.0, 1.0) * 7.0).ceil() as usize;
                HEIGHTS[height.min(7)]
            }
            _ => ' ',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_their_width() {
        for (share, expected) in [
            (0.0, "    "),
            (0.001, "▏   "),
            (0.5, "██  "),
            (0.53, "██▏ "),
            (1.0, "████"),
            (7.0, "████"),
            (-1.0, "    "),
            (f64::NAN, "    "),
        ] {
            assert_eq!(bar(share, 4), expected, "{share}");
        }
        assert_eq!(gauge(0.5, 4), "██··");
        assert_eq!(gauge(0.0, 4), "····");
        assert_eq!(gauge(1.0, 4), "████");
        assert_eq!(bar(0.5, 0), "");
    }

    #[test]
    fn zero_and_unknown_differ_in_curves() {
        assert_eq!(curve(&[Some(0.0), None, Some(0.1), Some(5.0), Some(10.0), Some(99.0)], 10.0), "▁ ▂▅██");
        assert_eq!(curve(&[Some(0.0), Some(f64::NAN)], 0.0), "▁ ");
    }
}
