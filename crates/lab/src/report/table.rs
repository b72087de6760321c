//! A table of cells with a tone, and its aligned form. It does not know the meaning of the cells.

use crate::terminal::Paint;

/// Columns and rows of text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextTable {
    /// From the left; the first names the row.
    pub columns: Vec<TableColumn>,
    /// Each as long as `columns`.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Its heading.
    pub heading: String,
    /// Whether its cells are numbers, which are aligned to the right.
    pub numeric: bool,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// Its tone.
    pub tone: Tone,
    /// The number that it is sorted by, if that is not its text.
    pub number: Option<f64>,
}

/// The tone of a cell, shown by colour. Colour never carries information alone.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Tone {
    /// No mark.
    #[default]
    Usual,
    /// A good value.
    Good,
    /// A bad value.
    Bad,
    /// A value to look at.
    Noted,
    /// A less important value.
    Faint,
}

impl TextTable {
    /// An empty table with these headings; all columns after the first hold numbers.
    pub fn with_numbers<T: Into<String>>(headings: impl IntoIterator<Item = T>) -> Self {
        let column =
            |(index, heading): (usize, T)| TableColumn { heading: heading.into(), numeric: index > 0 };
        Self { columns: headings.into_iter().enumerate().map(column).collect(), rows: Vec::new() }
    }

    /// Lines of at most `width` columns, if all but the first column leave enough: first gaps shrink, then
    /// names are cut.
    pub fn aligned(&self, paint: Paint, width: usize) -> String {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|index| self.column_width(index)).collect();
        let whole = |widths: &[usize], gap: usize| widths.iter().sum::<usize>() + gap * widths.len();
        let gap = if whole(&widths, 2) <= width { 2 } else { 1 };
        let over = whole(&widths, gap).saturating_sub(width);
        if let Some(first) = widths.first_mut() {
            *first = first.saturating_sub(over).max(LEAST_NAME).min(*first);
        }
        let heading =
            |column: &TableColumn| Cell { text: column.heading.clone(), tone: Tone::Faint, number: None };
        let headings: Vec<Cell> = self.columns.iter().map(heading).collect();
        let mut out = String::new();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let mut line = String::new();
            for ((cell, width), column) in row.iter().zip(&widths).zip(&self.columns) {
                line += &" ".repeat(gap);
                line += &padded(cell, *width, column.numeric, paint);
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }

    fn column_width(&self, index: usize) -> usize {
        let cells = self.rows.iter().map(|row| columns_of(&row[index].text));
        cells.chain([columns_of(&self.columns[index].heading)]).max().unwrap_or_default()
    }
}

impl Cell {
    /// Text without a mark.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A number as text, and its value for sorting.
    pub fn number(text: impl Into<String>, number: Option<f64>) -> Self {
        Self { text: text.into(), number, ..Self::default() }
    }

    /// The same cell with a tone.
    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

/// Breaks text into lines of at most `width` columns, the later ones indented by `indent`.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = columns_of(word);
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out += &" ".repeat(indent);
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out += word;
        column += length;
    }
    out
}

fn padded(cell: &Cell, width: usize, right: bool, paint: Paint) -> String {
    let text = shortened(&cell.text, width);
    let room = " ".repeat(width - columns_of(&text));
    let marked = match cell.tone {
        Tone::Usual => text,
        Tone::Good => paint.good(&text),
        Tone::Bad => paint.bad(&text),
        Tone::Noted => paint.noted(&text),
        Tone::Faint => paint.faint(&text),
    };
    if right { room + &marked } else { marked + &room }
}

/// Cut to `width` columns, with a mark at the cut. Control characters are removed.
fn shortened(text: &str, width: usize) -> String {
    let clean: String = text.chars().filter(|character| !character.is_control()).collect();
    if columns_of(&clean) <= width {
        return clean;
    }
    clean.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// Number of columns of a text; names and figures have no wide characters.
fn columns_of(text: &str) -> usize {
    text.chars().filter(|character| !character.is_control()).count()
}

/// Shortest length of a cut name.
const LEAST_NAME: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> TextTable {
        let mut table = TextTable::with_numbers(["", "req/s", "×"]);
        table.rows.push(vec![
            Cell::text(name),
            Cell::number("12,345", Some(12_345.0)),
            Cell::text("1.00").toned(Tone::Good),
        ]);
        table.rows.push(vec![Cell::text("b"), Cell::text("9"), Cell::text("-")]);
        table
    }

    #[test]
    fn columns_stand_below_each_other() {
        assert_eq!(
            table("nginx").aligned(Paint::Plain, 80),
            "          req/s     ×\n  nginx  12,345  1.00\n  b           9     -\n"
        );
        let painted = table("nginx").aligned(Paint::Colour, 80);
        assert!(painted.contains("\u{1b}[32m1.00\u{1b}[0m"), "{painted:?}");
    }

    #[test]
    fn wide_table_loses_gaps_then_cuts_names() {
        let name = "a-contender-with-a-long-name";
        let rows = [
            (44, "  a-contender-with-a-long-name  12,345  1.00"),
            (43, " a-contender-with-a-long-name 12,345 1.00"),
        ];
        for (width, expected) in rows.into_iter().chain([(30, " a-contender-with… 12,345 1.00")]) {
            let aligned = table(name).aligned(Paint::Plain, width);
            assert_eq!(aligned.lines().nth(1), Some(expected), "{width}");
        }
        assert_eq!(
            table("e\u{1b}[2Jvil").aligned(Paint::Plain, 80).lines().nth(1),
            Some("  e[2Jvil  12,345  1.00")
        );
    }

    #[test]
    fn long_sentences_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrapped("unbreakable", 4, 2), "unbreakable");
    }
}
