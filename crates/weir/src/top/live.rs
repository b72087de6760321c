//! The terminal of the live view: draws the screen, reads keys, and asks the instance once a second on a
//! thread of its own, so that an instance that does not answer does not stop the keys.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as ShownLine, Span, Text};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::data::{Overview, Top};
use super::screen::screen;
use super::state::{KeyEffect, TopState};
use super::table::{Tab, Tone};

/// The answers about one kind of rows, or why there are none.
type TopAnswers = Result<(Overview, Top), String>;

/// Shows the view until the user ends it. `ask` fetches the answers for a kind of rows.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) fn run_live_view(
    mut state: TopState,
    ask: impl Fn(Tab) -> TopAnswers + Send + 'static,
    has_colours: bool,
) -> io::Result<()> {
    let (wanted, wishes) = channel();
    let (answers, answered) = channel();
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&is_ended))?;
    }
    std::thread::Builder::new().name("ask".to_owned()).spawn(move || answer_all(&wishes, &answers, ask))?;
    let mut terminal = ratatui::try_init().inspect_err(|_| {
        // It may have been taken over in part; the error of that counts more than one of giving it back.
        let _ = ratatui::try_restore();
    })?;
    let shown = show(&mut terminal, &mut state, &Asking { wanted, answered, is_ended }, has_colours);
    ratatui::restore();
    shown
}

/// The way to the thread that asks, and the flag that a signal sets.
struct Asking {
    wanted: Sender<Tab>,
    answered: Receiver<(Tab, TopAnswers)>,
    /// Set by SIGTERM and SIGHUP, so that the terminal is given back before the process ends.
    is_ended: Arc<AtomicBool>,
}

/// Answers the newest of the wishes that wait.
fn answer_all(wishes: &Receiver<Tab>, answers: &Sender<(Tab, TopAnswers)>, ask: impl Fn(Tab) -> TopAnswers) {
    while let Ok(first) = wishes.recv() {
        let tab = wishes.try_iter().last().unwrap_or(first);
        if answers.send((tab, ask(tab))).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut TopState,
    asking: &Asking,
    has_colours: bool,
) -> io::Result<()> {
    let mut next_ask = Instant::now();
    let mut is_asking = false;
    while !asking.is_ended.load(Ordering::Relaxed) {
        terminal.draw(|frame| draw(frame, state, has_colours))?;
        if Instant::now() >= next_ask && !is_asking {
            is_asking = asking.wanted.send(state.tab).is_ok();
            next_ask = Instant::now() + PERIOD;
        }
        if event::poll(KEY_WAIT)?
            && let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
        {
            match state.press(key) {
                KeyEffect::Quit => return Ok(()),
                KeyEffect::Ask => next_ask = Instant::now(),
                KeyEffect::Nothing => {}
            }
        }
        while let Ok((tab, answers)) = asking.answered.try_recv() {
            is_asking = false;
            state.take(tab, answers);
        }
    }
    Ok(())
}

/// Draws the screen of the state.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &TopState, has_colours: bool) {
    let area = frame.area();
    let lines = screen(state, usize::from(area.width), usize::from(area.height));
    let shown = lines.into_iter().map(|line| {
        let span = |piece: super::table::TonedText| Span::styled(piece.text, style(piece.tone, has_colours));
        ShownLine::from(line.into_iter().map(span).collect::<Vec<_>>())
    });
    frame.render_widget(Text::from(shown.collect::<Vec<_>>()), area);
}

fn style(tone: Tone, has_colours: bool) -> Style {
    let plain = Style::new();
    match (tone, has_colours) {
        (Tone::Chosen, _) => plain.add_modifier(Modifier::REVERSED),
        (Tone::Faint, _) => plain.add_modifier(Modifier::DIM),
        (Tone::Bad, true) => plain.fg(Color::Red),
        (Tone::Warn, true) => plain.fg(Color::Yellow),
        (Tone::Accent, true) => plain.fg(Color::Cyan),
        (Tone::Bad | Tone::Warn, false) => plain.add_modifier(Modifier::BOLD),
        (Tone::Plain, _) | (Tone::Accent, false) => plain,
    }
}

/// How often the instance is asked: its figures change once a second.
const PERIOD: Duration = Duration::from_secs(1);
/// How long a turn waits for a key; an answer is drawn within this time.
const KEY_WAIT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::data::TopRow;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    #[test]
    fn state_is_drawn_on_a_terminal() {
        let mut state = TopState::new(Tab::Consumers, false);
        let row = TopRow { id: "mobile-app".into(), rps: 640.0, share: 50.0, p5xx: 2.0, ..TopRow::default() };
        let overview = Overview { instance: "edge".into(), revision: 7, ..Overview::default() };
        state.take(Tab::Consumers, Ok((overview, Top { list: vec![row], ..Top::default() })));
        let mut terminal = Terminal::new(TestBackend::new(80, 8)).unwrap();
        terminal.draw(|frame| draw(frame, &state, true)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| -> String { (0..80).map(|x| buffer[(x, y)].symbol()).collect() };
        assert!(line(0).starts_with("edge   r7 0/0   -/s"), "{}", line(0));
        assert!(line(1).contains("[4 consumers]"), "{}", line(1));
        assert!(line(3).starts_with("■ mobile-app") && line(3).contains("▇▇▇▇"), "{}", line(3));
        assert_eq!(buffer[(0, 3)].modifier, Modifier::REVERSED, "the selected row");
        assert!(line(7).contains("q quit"), "{}", line(7));
    }

    #[test]
    fn only_the_newest_wish_is_answered() {
        let (wanted, wishes) = channel();
        let (answers, answered) = channel();
        for tab in [Tab::Routes, Tab::Causes] {
            wanted.send(tab).unwrap();
        }
        drop(wanted);
        answer_all(&wishes, &answers, |_| Err("a test".to_owned()));
        let tabs: Vec<Tab> = answered.try_iter().map(|(tab, _)| tab).collect();
        assert_eq!(tabs, [Tab::Causes]);
    }
}
