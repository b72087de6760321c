//! The look of the live view: lines of texts with a meaning, made from the state alone, for a terminal of any
//! size and for plain output.

use super::data::{NOW_S, Now, Overview, Top, TopRow};
use super::numbers::{UNKNOWN, clean, format_bytes, format_percent, mebibytes, millis, rate, time_of_day};
use super::state::TopState;
use super::table::{Mark, ScreenLine, Tab, Tone, TonedText, lines, rest};
use crate::terminal::Paint;

/// The screen of `width` columns and `height` lines.
pub(crate) fn screen(state: &TopState, width: usize, height: usize) -> Vec<ScreenLine> {
    let mut screen = vec![heading(&state.overview, width)];
    screen.extend(state.problem.iter().map(|problem| vec![TonedText::toned(clean(problem), Tone::Bad)]));
    screen.extend(attention(&state.overview, state.in_words, ATTENTION_LINES));
    screen.push(tabs(state));
    let rows = state.rows();
    let (title, mut table) = lines(state.tab, &rows, &state.overview, width, state.in_words);
    screen.push(title);
    let details = match rows.get(state.selected) {
        Some(row) if state.shows_details => details(state.tab, row),
        _ => Vec::new(),
    };
    let below = details.len() + 1;
    let room = height.saturating_sub(screen.len() + below).max(1);
    if rows.is_empty() {
        screen.push(empty(state));
    }
    let first = state.selected.saturating_sub(room.saturating_sub(1));
    if let Some(line) = table.get_mut(state.selected) {
        line.iter_mut().for_each(|piece| piece.tone = Tone::Chosen);
    }
    let shown = table.len().saturating_sub(first).min(room);
    screen.extend(table.into_iter().skip(first).take(room));
    if shown < room && state.filter.is_empty() {
        screen.extend(rest(&state.top));
    }
    screen.resize(screen.len().max(height.saturating_sub(below)), Vec::new());
    screen.extend(details);
    screen.push(vec![TonedText::toned(KEYS, Tone::Faint)]);
    screen.truncate(height);
    screen
}

/// The state as it is printed once, without a terminal.
pub(crate) fn printed(state: &TopState, width: usize, paint: Paint) -> String {
    let mut all = vec![heading(&state.overview, width)];
    all.extend(attention(&state.overview, state.in_words, usize::MAX));
    let rows = state.rows();
    let (title, table) = lines(state.tab, &rows, &state.overview, width, state.in_words);
    all.extend(window(&state.top).map(|piece| vec![piece]));
    all.push(title);
    if rows.is_empty() {
        all.push(empty(state));
    }
    all.extend(table);
    all.extend(rest(&state.top));
    all.iter().map(|line| painted(line, paint)).collect::<Vec<_>>().join("\n")
}

/// A line as text for a stream.
pub(crate) fn painted(line: &ScreenLine, paint: Paint) -> String {
    let piece = |piece: &TonedText| {
        let text = &piece.text;
        match piece.tone {
            Tone::Plain | Tone::Accent | Tone::Chosen => text.clone(),
            Tone::Faint => paint.faint(text),
            Tone::Warn => paint.noted(text),
            Tone::Bad => paint.bad(text),
        }
    };
    line.iter().map(piece).collect::<String>().trim_end().to_owned()
}

/// The figures of the instance in a line; the right-hand ones are left out where it is narrow.
pub(crate) fn heading(overview: &Overview, width: usize) -> ScreenLine {
    let (there, workers) = overview.workers_at_revision();
    let behind = if there < workers { Tone::Warn } else { Tone::Plain };
    let mut parts = vec![
        TonedText::plain(clean(&overview.instance)),
        TonedText::toned(format!("r{} {there}/{workers}", overview.revision), behind),
    ];
    parts.extend(figures(&overview.now));
    parts.push(TonedText::toned(format!("{} UTC", time_of_day(overview.end_ms)), Tone::Faint));
    let mut line = Vec::new();
    let mut used = 0;
    for mut part in parts.into_iter().filter(|part| !part.text.is_empty()) {
        used += part.text.chars().count() + HEADING_GAP.len();
        if used > width + HEADING_GAP.len() {
            break;
        }
        part.text.push_str(HEADING_GAP);
        line.push(part);
    }
    line
}

/// The figures of now, each as a text.
fn figures(now: &Now) -> [TonedText; 6] {
    let number = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), rate);
    let failing = now.failing();
    let cores = now.cores.map_or(String::new(), |cores| format!("/{cores}"));
    let cpu = now.cpu.map_or_else(|| UNKNOWN.to_owned(), |cpu| format!("{cpu:.2}"));
    let memory = now.rss.map_or_else(|| UNKNOWN.to_owned(), mebibytes);
    let limit = now.memory_limit.map_or(String::new(), |limit| format!(" of {}", mebibytes(limit)));
    [
        TonedText::plain(format!("{}/s in {NOW_S} s", number(now.requests))),
        TonedText::toned(
            format!("5xx {} %", failing.map_or_else(|| UNKNOWN.to_owned(), format_percent)),
            Mark::of_share(failing.unwrap_or_default()).tone(),
        ),
        TonedText::plain(format!("p50 {} p99 {} ms", millis(now.p50_us), millis(now.p99_us))),
        TonedText::plain(format!("{} in flight", number(now.in_flight.map(f64::round)))),
        TonedText::plain(format!("CPU {cpu}{cores}")),
        TonedText::plain(format!("{memory}{limit}")),
    ]
}

/// The lines about what needs attention, the first `most` of them.
pub(crate) fn attention(overview: &Overview, in_words: bool, most: usize) -> Vec<ScreenLine> {
    let mut shown: Vec<ScreenLine> = overview
        .attention
        .iter()
        .take(most)
        .map(|line| {
            let mark = Mark::of_severity(&line.severity);
            vec![
                TonedText::toned(format!("{} {}", mark.text(in_words), clean(&line.title)), mark.tone()),
                TonedText::toned(format!(" {}", clean(&line.detail)), Tone::Faint),
            ]
        })
        .collect();
    let more = overview.attention.len().saturating_sub(most);
    if more > 0 {
        shown.push(vec![TonedText::toned(format!("and {more} more; see `weir status`"), Tone::Warn)]);
    }
    shown
}

fn tabs(state: &TopState) -> ScreenLine {
    let mut line: ScreenLine = Tab::ALL
        .iter()
        .enumerate()
        .map(|(index, tab)| {
            let text = format!("{} {}", index + 1, tab.name());
            match *tab == state.tab {
                true => TonedText::toned(format!("[{text}] "), Tone::Chosen),
                false => TonedText::plain(format!(" {text}  ")),
            }
        })
        .collect();
    line.push(TonedText::toned(format!("   sorted by {}", state.sort.name()), Tone::Faint));
    line.extend(window(&state.top).map(|piece| TonedText { text: format!("   {}", piece.text), ..piece }));
    if state.is_filtering || !state.filter.is_empty() {
        let cursor = if state.is_filtering { "_" } else { "" };
        line.push(TonedText::toned(format!("   /{}{cursor}", clean(&state.filter)), Tone::Accent));
    }
    if state.is_paused {
        line.push(TonedText::toned("   paused", Tone::Warn));
    }
    line
}

/// The time that the rows are over, because the figures of the heading are over another one; none before an
/// answer.
fn window(top: &Top) -> Option<TonedText> {
    (top.window_s > 0.0)
        .then(|| TonedText::toned(format!("rows: the last {:.0} s", top.window_s.round()), Tone::Faint))
}

/// The reason why there are no rows.
fn empty(state: &TopState) -> ScreenLine {
    let text = match state.top.list.len() {
        _ if !state.has_answer => "asking the instance".to_owned(),
        0 => format!("no traffic in the last minute by {}", state.tab.name()),
        count => format!("none of {count} {} matches the filter; Esc clears it", state.tab.name()),
    };
    vec![TonedText::toned(text, Tone::Faint)]
}

/// All values of a row, and the commands that show more about it.
fn details(tab: Tab, row: &TopRow) -> Vec<ScreenLine> {
    let mut lines = vec![
        vec![
            TonedText::toned(format!("{} ", tab.name().trim_end_matches('s')), Tone::Faint),
            TonedText::plain(clean(&row.id)),
            TonedText::plain(row.name.as_ref().map_or(String::new(), |name| format!("  {}", clean(name)))),
            TonedText::toned(
                row.matched.as_ref().map_or(String::new(), |line| format!("  {}", clean(line))),
                Tone::Faint,
            ),
        ],
        vec![TonedText::plain(format!(
            "{}/s, {} % of all   4xx {} %   5xx {} %   mean {} ms   p99 {} ms   {}/s",
            rate(row.rps),
            format_percent(row.share),
            format_percent(row.p4xx),
            format_percent(row.p5xx),
            millis(Some(row.mean_us)),
            millis(row.p99_us),
            format_bytes(row.bytes),
        ))],
    ];
    let command = match tab {
        Tab::Upstreams | Tab::Endpoints => {
            let name = if tab == Tab::Upstreams { Some(&row.id) } else { row.upstream.as_ref() };
            name.map(|name| format!("weir upstreams {}", clean(name)))
        }
        Tab::Routes | Tab::Consumers | Tab::Causes => None,
    };
    lines.extend(command.map(|command| vec![TonedText::toned(command, Tone::Accent)]));
    lines
}

/// Lines about what needs attention on a terminal, so that the table keeps most of it.
const ATTENTION_LINES: usize = 4;
/// Between two figures of the heading.
const HEADING_GAP: &str = "   ";
/// The last line.
const KEYS: &str = "1-5 or Tab rows   / filter   s sort   Enter details   p pause   q quit";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::data::{Attention, Worker};

    fn state() -> TopState {
        let row = |id: &str, rps: f64, p5xx: f64| TopRow {
            id: id.into(),
            name: Some(format!("{id}-read")),
            matched: Some(format!("GET {id}.example/{id}/*")),
            rps,
            share: rps / 100.0,
            p5xx,
            p99_us: Some(11_800),
            bytes: 1_000.0,
            upstream: Some("orders".into()),
            ..TopRow::default()
        };
        let overview = Overview {
            instance: "edge-fra-1".into(),
            revision: 4127,
            end_ms: 1_767_225_731_000,
            now: Now {
                requests: Some(9_412.0),
                req_5xx: Some(22.6),
                p50_us: Some(4_200),
                p99_us: Some(52_300),
                cpu: Some(1.32),
                cores: Some(4),
                rss: Some(86 << 20),
                in_flight: Some(388.0),
                ..Now::default()
            },
            workers: vec![Worker { revision: 4127 }, Worker { revision: 4126 }],
            attention: vec![Attention {
                severity: "err".into(),
                what: "endpoints_down".into(),
                title: "2 of 6 endpoints of upstream orders are down.".into(),
                detail: "10.0.4.17:8080 unhealthy\u{1b}[2J".into(),
                link: "/upstreams/orders".into(),
            }],
        };
        let top = Top {
            list: vec![row("shop", 4_210.0, 0.02), row("checkout", 1_906.0, 1.84)],
            window_s: 55.2,
            ..Top::default()
        };
        let mut state = TopState::new(Tab::Routes, false);
        state.take(Tab::Routes, Ok((overview, top)));
        state
    }

    fn texts(lines: &[ScreenLine]) -> Vec<String> {
        lines.iter().map(|line| painted(line, Paint::Plain)).collect()
    }

    #[test]
    fn screen_shows_figures_and_rows() {
        let screen = texts(&screen(&state(), 130, 12));
        assert_eq!(screen.len(), 12);
        assert_eq!(
            screen[0],
            "edge-fra-1   r4127 1/2   9,412/s in 10 s   5xx 0.24 %   p50 4.20 p99 52.3 ms   388 in flight   CPU 1.32/4   86 MiB   00:02:11 UTC"
        );
        assert_eq!(screen[1], "■ 2 of 6 endpoints of upstream orders are down. 10.0.4.17:8080 unhealthy?[2J");
        assert!(screen[2].starts_with("[1 routes]  2 upstreams   3 endpoints"), "{}", screen[2]);
        assert!(screen[3].starts_with("  ROUTE") && screen[3].ends_with("BYTES/S"), "{}", screen[3]);
        assert!(screen[4].starts_with("● shop-read"), "{}", screen[4]);
        assert!(screen[5].starts_with("■ checkout-read") && screen[5].contains("1.84"), "{}", screen[5]);
        assert!(screen[11].ends_with("q quit"), "{}", screen[11]);
    }

    #[test]
    fn narrow_screen_leaves_right_hand_columns_out() {
        for width in [20, 40, 60, 80] {
            for line in texts(&screen(&state(), width, 24)).iter().skip(3).take(3) {
                assert!(line.chars().count() <= width.max(16), "{width}: {line}");
            }
        }
        let screen = texts(&screen(&state(), 80, 24));
        assert!(screen[3].contains("P99 MS") && !screen[3].contains("BYTES/S"), "{}", screen[3]);
    }

    #[test]
    fn words_stand_for_shapes_without_colours() {
        let mut state = state();
        state.in_words = true;
        let text = printed(&state, 130, Paint::Plain);
        assert!(text.contains("\nbad  2 of 6 endpoints") && text.contains("\nok   shop-read"), "{text}");
        assert!(!text.contains('●'), "{text}");
        assert!(text.contains("9,412/s in 10 s ") && text.contains("\nrows: the last 55 s\n"), "{text}");
    }

    #[test]
    fn details_name_all_values() {
        let mut state = state();
        state.shows_details = true;
        let screen = texts(&screen(&state, 130, 20));
        assert_eq!(screen.len(), 20);
        assert_eq!(screen[17], "route shop  shop-read  GET shop.example/shop/*");
        assert!(screen[18].starts_with("4,210/s, 42.1 % of all   4xx 0 %   5xx 0.02 %"), "{}", screen[18]);
    }

    #[test]
    fn selected_row_stays_in_view() {
        let mut state = state();
        state.selected = 1;
        let screen = texts(&screen(&state, 100, 6));
        assert!(screen[4].contains("checkout"), "{screen:?}");
        for height in 0..6 {
            assert!(texts(&super::screen(&state, 100, height)).len() <= height);
        }
    }

    #[test]
    fn empty_table_says_why() {
        let mut state = state();
        state.filter = "nothing".into();
        assert!(printed(&state, 80, Paint::Plain).contains("none of 2 routes matches the filter"));
        state.top.list.clear();
        assert!(printed(&state, 80, Paint::Plain).contains("no traffic in the last minute by routes"));
    }
}
