//! The rows of `weir/top` as a table that fits a width: which columns a kind of rows has, and which of them
//! are left out on a narrow terminal.

use super::data::{Attention, Overview, Top, TopRow};
use super::numbers::{UNKNOWN, clean, format_bytes, format_percent, millis, rate, time_of_day};

/// The kinds of rows, in the order of their tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Routes,
    Upstreams,
    Endpoints,
    Consumers,
    Causes,
}

impl Tab {
    pub(crate) const ALL: [Tab; 5] =
        [Tab::Routes, Tab::Upstreams, Tab::Endpoints, Tab::Consumers, Tab::Causes];

    /// Its name, on the screen and as the argument `by`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tab::Routes => "routes",
            Tab::Upstreams => "upstreams",
            Tab::Endpoints => "endpoints",
            Tab::Consumers => "consumers",
            Tab::Causes => "causes",
        }
    }

    fn columns(self) -> &'static [TopColumn] {
        match self {
            Tab::Routes => &[
                TopColumn::Name("ROUTE"),
                TopColumn::Match,
                TopColumn::Rate,
                TopColumn::Share,
                TopColumn::Failing,
                TopColumn::P99,
                TopColumn::Upstream,
                TopColumn::Refused,
                TopColumn::Bytes,
            ],
            Tab::Upstreams => &[
                TopColumn::Name("UPSTREAM"),
                TopColumn::Rate,
                TopColumn::Share,
                TopColumn::Failing,
                TopColumn::P99,
                TopColumn::State,
                TopColumn::Bytes,
            ],
            Tab::Endpoints => &[
                TopColumn::Name("ENDPOINT"),
                TopColumn::Upstream,
                TopColumn::Rate,
                TopColumn::Share,
                TopColumn::Failing,
                TopColumn::P99,
                TopColumn::LastFailure,
                TopColumn::Bytes,
            ],
            Tab::Consumers => &[
                TopColumn::Name("CONSUMER"),
                TopColumn::Group,
                TopColumn::Rate,
                TopColumn::Share,
                TopColumn::Refused,
                TopColumn::Failing,
                TopColumn::P99,
                TopColumn::Bytes,
            ],
            Tab::Causes => &[TopColumn::Name("CAUSE"), TopColumn::Rate, TopColumn::Share],
        }
    }
}

/// The sorts of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Rate,
    Failing,
    P99,
    Bytes,
    Name,
}

impl Sort {
    const ALL: [Sort; 5] = [Sort::Rate, Sort::Failing, Sort::P99, Sort::Bytes, Sort::Name];

    /// The one behind it.
    pub(crate) fn next(self) -> Sort {
        let place = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Sort::ALL[(place + 1) % Sort::ALL.len()]
    }

    /// Its name on the screen.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Sort::Rate => "rate",
            Sort::Failing => "5xx",
            Sort::P99 => "p99",
            Sort::Bytes => "bytes",
            Sort::Name => "name",
        }
    }

    /// Sorts rows, the greatest value first.
    pub(crate) fn sort(self, rows: &mut [&TopRow]) {
        let greatest = |key: fn(&TopRow) -> f64| move |a: &&TopRow, b: &&TopRow| key(b).total_cmp(&key(a));
        match self {
            Sort::Rate => rows.sort_by(greatest(|row| row.rps)),
            Sort::Failing => rows.sort_by(greatest(|row| row.p5xx)),
            Sort::P99 => rows.sort_by(greatest(|row| row.p99_us.unwrap_or_default() as f64)),
            Sort::Bytes => rows.sort_by(greatest(|row| row.bytes)),
            Sort::Name => rows.sort_by(|a, b| a.shown_name().cmp(b.shown_name())),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopColumn {
    Name(&'static str),
    Match,
    Rate,
    Share,
    Refused,
    Failing,
    P99,
    Bytes,
    Upstream,
    Group,
    State,
    LastFailure,
}

impl TopColumn {
    fn title(self) -> &'static str {
        match self {
            TopColumn::Name(title) => title,
            TopColumn::Match => "MATCH",
            TopColumn::Rate => "REQ/S",
            TopColumn::Share => "SHARE",
            TopColumn::Refused => "4XX %",
            TopColumn::Failing => "5XX %",
            TopColumn::P99 => "P99 MS",
            TopColumn::Bytes => "BYTES/S",
            TopColumn::Upstream => "UPSTREAM",
            TopColumn::Group => "GROUP",
            TopColumn::State => "STATE",
            TopColumn::LastFailure => "LAST FAILURE",
        }
    }

    fn is_number(self) -> bool {
        matches!(
            self,
            TopColumn::Rate | TopColumn::Refused | TopColumn::Failing | TopColumn::P99 | TopColumn::Bytes
        )
    }

    /// The width that texts are cut to.
    fn most(self) -> usize {
        match self {
            TopColumn::Name(_) => 32,
            TopColumn::Match => 40,
            TopColumn::Share => SHARE_WIDTH,
            _ => 28,
        }
    }

    fn piece(self, row: &TopRow, mark: Mark, attention: &[Attention]) -> TonedText {
        let text = |text: Option<&String>| TonedText::plain(clean(text.map_or("", String::as_str)));
        match self {
            TopColumn::Name(_) => TonedText::plain(clean(row.shown_name())),
            TopColumn::Match => text(row.matched.as_ref()),
            TopColumn::Rate => TonedText::plain(rate(row.rps)),
            TopColumn::Share => {
                let cells = (row.share / 100.0 * SHARE_WIDTH as f64).round().clamp(0.0, SHARE_WIDTH as f64);
                TonedText { text: "▇".repeat(cells as usize), tone: Tone::Accent }
            }
            TopColumn::Refused => TonedText::plain(format_percent(row.p4xx)),
            TopColumn::Failing => {
                TonedText { text: format_percent(row.p5xx), tone: Mark::of_share(row.p5xx).tone() }
            }
            TopColumn::P99 => TonedText::plain(millis(row.p99_us)),
            TopColumn::Bytes => TonedText::plain(format_bytes(row.bytes)),
            TopColumn::Upstream => text(row.upstream.as_ref().or(row.service.as_ref())),
            TopColumn::Group => text(row.group.as_ref()),
            TopColumn::State => {
                let about = about(row, attention);
                let state =
                    about.map_or("up", |line| line.title.split(" endpoints").next().unwrap_or("down"));
                let state = if about.is_some() { format!("{state} down") } else { state.to_owned() };
                TonedText { text: clean(&state), tone: mark.tone() }
            }
            TopColumn::LastFailure => match &row.last_failure {
                None => TonedText { text: UNKNOWN.to_owned(), tone: Tone::Faint },
                Some(last) => TonedText::plain(format!("{} {}", clean(&last.cause), time_of_day(last.at_ms))),
            },
        }
    }
}

/// Cells of a share bar.
const SHARE_WIDTH: usize = 8;
/// Least width of the first column.
const NAME_LEAST: usize = 12;
/// Spaces between columns.
const GAP: usize = 2;

/// How good a row is: a shape and a word, because colour alone would not show everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Good,
    Attention,
    Bad,
}

impl Mark {
    /// By the share of 5xx in percent: attention from 0.1 %, bad from 1 %.
    pub(crate) fn of_share(percent: f64) -> Mark {
        match percent {
            _ if percent >= 1.0 => Mark::Bad,
            _ if percent >= 0.1 => Mark::Attention,
            _ => Mark::Good,
        }
    }

    /// By the severity of a line about it.
    pub(crate) fn of_severity(severity: &str) -> Mark {
        if severity == "err" { Mark::Bad } else { Mark::Attention }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Mark::Good => Tone::Plain,
            Mark::Attention => Tone::Warn,
            Mark::Bad => Tone::Bad,
        }
    }

    /// The shape, or a word of the same meaning where there are no colours.
    pub(crate) fn text(self, in_words: bool) -> &'static str {
        match (self, in_words) {
            (Mark::Good, false) => "●",
            (Mark::Attention, false) => "▲",
            (Mark::Bad, false) => "■",
            (Mark::Good, true) => "ok  ",
            (Mark::Attention, true) => "warn",
            (Mark::Bad, true) => "bad ",
        }
    }
}

/// A text with its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TonedText {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl TonedText {
    pub(crate) fn plain(text: impl Into<String>) -> TonedText {
        TonedText { text: text.into(), tone: Tone::Plain }
    }

    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> TonedText {
        TonedText { text: text.into(), tone }
    }
}

/// The meaning of a text, which a terminal shows as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Faint,
    Accent,
    Warn,
    Bad,
    /// The selected row or tab.
    Chosen,
}

/// One line of a screen.
pub(crate) type ScreenLine = Vec<TonedText>;

/// The line about the object of a row, if one needs attention.
fn about<'a>(row: &TopRow, attention: &'a [Attention]) -> Option<&'a Attention> {
    attention.iter().find(|line| line.what == "endpoints_down" && line.link.trim_start_matches('/') == row.id)
}

fn mark_of(tab: Tab, row: &TopRow, overview: &Overview) -> Mark {
    let link = match tab {
        Tab::Routes => format!("/routes/{}", row.id),
        Tab::Upstreams => format!("/{}", row.id),
        Tab::Consumers => format!("/consumers/{}", row.id),
        Tab::Endpoints | Tab::Causes => String::new(),
    };
    let lines = overview.attention.iter().filter(|line| line.link == link);
    let named = lines.map(|line| Mark::of_severity(&line.severity)).max();
    named.unwrap_or(Mark::Good).max(Mark::of_share(row.p5xx))
}

/// The title line and a line for each row, at most `width` wide.
pub(crate) fn lines(
    tab: Tab,
    rows: &[&TopRow],
    overview: &Overview,
    width: usize,
    in_words: bool,
) -> (ScreenLine, Vec<ScreenLine>) {
    let columns = tab.columns();
    let mark_width = Mark::Good.text(in_words).chars().count() + 1;
    let marks: Vec<Mark> = rows.iter().map(|row| mark_of(tab, row, overview)).collect();
    let cells: Vec<Vec<TonedText>> = rows
        .iter()
        .zip(&marks)
        .map(|(row, mark)| {
            columns.iter().map(|column| column.piece(row, *mark, &overview.attention)).collect()
        })
        .collect();
    let natural = |index: usize, column: &TopColumn| {
        let widest = cells.iter().map(|row| row[index].text.chars().count()).max().unwrap_or_default();
        widest.max(column.title().len()).min(column.most())
    };
    let wanted: Vec<usize> = columns.iter().enumerate().map(|(index, one)| natural(index, one)).collect();
    let widths = fit(&wanted, width.saturating_sub(mark_width));
    let shown = columns.iter().zip(&widths);
    let mut title = vec![TonedText::plain(" ".repeat(mark_width))];
    title.extend(shown.map(|(column, width)| {
        TonedText::toned(padded(column.title(), *width, column.is_number()), Tone::Faint)
    }));
    let line = |(row, mark): (Vec<TonedText>, &Mark)| {
        let mut line = vec![TonedText::toned(format!("{} ", mark.text(in_words)), mark.tone())];
        for ((piece, column), width) in row.into_iter().zip(columns).zip(&widths) {
            line.push(TonedText::toned(padded(&piece.text, *width, column.is_number()), piece.tone));
        }
        line
    };
    (title, cells.into_iter().zip(&marks).map(line).collect())
}

/// The widths of the columns that are shown: the first columns as wide as they want, the right-hand ones left
/// out. The first one gives way before another is left out.
fn fit(wanted: &[usize], width: usize) -> Vec<usize> {
    let Some((first, others)) = wanted.split_first() else { return Vec::new() };
    let mut left = width.saturating_sub(NAME_LEAST.min(*first) + GAP);
    let mut widths = vec![NAME_LEAST.min(*first)];
    for other in others {
        if other + GAP > left {
            break;
        }
        left -= other + GAP;
        widths.push(*other);
    }
    widths[0] = (*first).min(widths[0] + left);
    widths
}

/// The text in exactly `width` columns, with the gap to the next one.
fn padded(text: &str, width: usize, is_number: bool) -> String {
    let gap = " ".repeat(GAP);
    let length = text.chars().count();
    if length > width {
        let kept: String = text.chars().take(width.saturating_sub(1)).collect();
        return format!("{kept}…{gap}");
    }
    if is_number { format!("{text:>width$}{gap}") } else { format!("{text:<width$}{gap}") }
}

/// The line about the traffic that no row has; none where there is little.
pub(crate) fn rest(top: &Top) -> Option<ScreenLine> {
    if top.other.rps < 0.005 {
        return None;
    }
    let text = match top.other.count {
        0 => format!("{}/s more without one of these", rate(top.other.rps)),
        count => format!("{}/s more, of {count} others", rate(top.other.rps)),
    };
    Some(vec![TonedText::toned(text, Tone::Faint)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_hand_columns_drop_out_first() {
        let wanted = [20, 30, 6, 8];
        assert_eq!(fit(&wanted, 200), [20, 30, 6, 8]);
        assert_eq!(fit(&wanted, 65), [13, 30, 6, 8]);
        assert_eq!(fit(&wanted, 60), [18, 30, 6]);
        assert_eq!(fit(&wanted, 20), [18]);
        assert_eq!(fit(&wanted, 3), [12]);
        assert_eq!(fit(&[], 3), [0; 0]);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(padded("abcdef", 4, false), "abc…  ");
        assert_eq!(padded("12", 4, true), "  12  ");
        assert_eq!(padded("äö", 3, false), "äö   ");
    }

    #[test]
    fn sorts_put_the_greatest_first() {
        let row = |id: &str, rps, p5xx| TopRow { id: id.into(), rps, p5xx, ..TopRow::default() };
        let rows = [row("b", 1.0, 5.0), row("a", 9.0, 0.0)];
        let sorted = |sort: Sort| {
            let mut sorted: Vec<&TopRow> = rows.iter().collect();
            sort.sort(&mut sorted);
            sorted[0].id.clone()
        };
        assert_eq!(
            (sorted(Sort::Rate), sorted(Sort::Failing), sorted(Sort::Name)),
            ("a".into(), "b".into(), "a".into())
        );
        let mut sort = Sort::Rate;
        for _ in Sort::ALL {
            sort = sort.next();
        }
        assert_eq!(sort, Sort::Rate);
    }
}
