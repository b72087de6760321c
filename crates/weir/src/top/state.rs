//! The state of the live view, and what keys change in it. It asks nothing and draws nothing.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::data::{Overview, Top, TopRow};
use super::table::{Sort, Tab};

/// See the module.
#[derive(Debug)]
pub(crate) struct TopState {
    pub(crate) tab: Tab,
    pub(crate) sort: Sort,
    /// Only rows with all words of it in their texts are shown.
    pub(crate) filter: String,
    /// Whether keys write into the filter.
    pub(crate) is_filtering: bool,
    pub(crate) is_paused: bool,
    /// Whether the selected row is shown with all its values.
    pub(crate) shows_details: bool,
    /// The place of the selected row.
    pub(crate) selected: usize,
    pub(crate) overview: Overview,
    pub(crate) top: Top,
    /// Whether `top` is an answer about the rows of `tab`.
    pub(crate) has_answer: bool,
    /// The reason for which the last answer did not come.
    pub(crate) problem: Option<String>,
    /// Words in place of shapes, because there are no colours.
    pub(crate) in_words: bool,
}

/// The effect of a key on the terminal loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyEffect {
    Nothing,
    /// Another kind of rows is wanted at once.
    Ask,
    Quit,
}

impl TopState {
    /// Shows the rows of `tab`; there are no answers yet.
    pub(crate) fn new(tab: Tab, in_words: bool) -> TopState {
        TopState {
            tab,
            sort: Sort::Rate,
            filter: String::new(),
            is_filtering: false,
            is_paused: false,
            shows_details: false,
            selected: 0,
            overview: Overview::default(),
            top: Top::default(),
            has_answer: false,
            problem: None,
            in_words,
        }
    }

    /// Takes answers, unless it is paused or they are of another kind of rows.
    pub(crate) fn take(&mut self, tab: Tab, answers: Result<(Overview, Top), String>) {
        if self.is_paused || tab != self.tab {
            return;
        }
        match answers {
            Ok((overview, top)) => {
                (self.overview, self.top, self.problem) = (overview, top, None);
                self.has_answer = true;
                self.selected = self.selected.min(self.rows().len().saturating_sub(1));
            }
            Err(problem) => self.problem = Some(problem),
        }
    }

    /// The rows that are shown, in their order.
    pub(crate) fn rows(&self) -> Vec<&TopRow> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let mut rows: Vec<&TopRow> = self.top.list.iter().filter(|row| holds(row, &words)).collect();
        self.sort.sort(&mut rows);
        rows
    }

    /// Changes the state by a key.
    pub(crate) fn press(&mut self, key: KeyEvent) -> KeyEffect {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { KeyEffect::Quit } else { KeyEffect::Nothing };
        }
        if self.is_filtering {
            self.write(key.code);
            return KeyEffect::Nothing;
        }
        match key.code {
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Esc if self.shows_details => self.shows_details = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Enter => self.shows_details = !self.shows_details,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::PageDown => self.select(self.selected.saturating_add(PAGE)),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(PAGE)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Tab | KeyCode::Right => return self.show(self.place() + 1),
            KeyCode::BackTab | KeyCode::Left => return self.show(self.place() + Tab::ALL.len() - 1),
            KeyCode::Char(digit @ '1'..='5') => return self.show(digit as usize - '1' as usize),
            _ => {}
        }
        KeyEffect::Nothing
    }

    fn write(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_filtering = false,
            KeyCode::Esc => {
                self.is_filtering = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) if self.filter.len() < FILTER_MAX => self.filter.push(letter),
            _ => {}
        }
        self.selected = 0;
    }

    fn select(&mut self, place: usize) {
        self.selected = place.min(self.rows().len().saturating_sub(1));
    }

    fn place(&self) -> usize {
        Tab::ALL.iter().position(|tab| *tab == self.tab).unwrap_or_default()
    }

    fn show(&mut self, place: usize) -> KeyEffect {
        let tab = Tab::ALL[place % Tab::ALL.len()];
        if tab == self.tab {
            return KeyEffect::Nothing;
        }
        (self.tab, self.selected, self.shows_details) = (tab, 0, false);
        (self.is_paused, self.has_answer, self.top) = (false, false, Top::default());
        KeyEffect::Ask
    }
}

/// Whether the texts of the row hold all words.
fn holds(row: &TopRow, words: &[String]) -> bool {
    let texts =
        [Some(&row.id), row.name.as_ref(), row.matched.as_ref(), row.upstream.as_ref(), row.group.as_ref()];
    let texts: Vec<String> = texts.into_iter().flatten().map(|text| text.to_lowercase()).collect();
    words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
}

/// Rows that a page key moves by.
const PAGE: usize = 10;
/// Longest filter in bytes: a line of a terminal.
const FILTER_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> TopState {
        let row = |id: &str, rps| TopRow { id: id.into(), rps, ..TopRow::default() };
        let top = Top { list: vec![row("shop", 5.0), row("pay", 9.0), row("soap", 1.0)], ..Top::default() };
        let mut state = TopState::new(Tab::Routes, false);
        state.take(Tab::Routes, Ok((Overview::default(), top)));
        state
    }

    fn press(state: &mut TopState, keys: &str) -> KeyEffect {
        keys.chars().fold(KeyEffect::Nothing, |_, key| {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                key => KeyCode::Char(key),
            };
            state.press(KeyEvent::new(code, KeyModifiers::NONE))
        })
    }

    fn ids(state: &TopState) -> Vec<&str> {
        state.rows().iter().map(|row| row.id.as_str()).collect()
    }

    #[test]
    fn filter_narrows_the_rows() {
        let mut state = state();
        assert_eq!(ids(&state), ["pay", "shop", "soap"]);
        press(&mut state, "jj");
        assert_eq!(state.selected, 2);
        press(&mut state, "/SO q");
        assert!(state.is_filtering && state.selected == 0, "q is a letter of the filter");
        state.press(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
        press(&mut state, "\n");
        assert_eq!(ids(&state), ["soap"]);
        state.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert_eq!(ids(&state).len(), 3);
    }

    #[test]
    fn tabs_ask_for_their_rows() {
        let mut state = state();
        assert_eq!(press(&mut state, "3"), KeyEffect::Ask);
        assert_eq!((state.tab, state.top.list.len()), (Tab::Endpoints, 0));
        state.take(
            Tab::Routes,
            Ok((Overview::default(), Top { list: vec![TopRow::default()], ..Top::default() })),
        );
        assert_eq!(state.top.list.len(), 0, "an answer about other rows came late");
        assert_eq!(press(&mut state, "\t\t\t"), KeyEffect::Ask);
        assert_eq!(state.tab, Tab::Routes);
        assert_eq!(press(&mut state, "1"), KeyEffect::Nothing);
    }

    #[test]
    fn pause_keeps_what_is_shown() {
        let mut state = state();
        press(&mut state, "p");
        state.take(Tab::Routes, Err("gone".to_owned()));
        assert_eq!((state.problem.as_ref(), ids(&state).len()), (None, 3));
        press(&mut state, "p");
        state.take(Tab::Routes, Err("gone".to_owned()));
        assert_eq!((state.problem.as_deref(), ids(&state).len()), (Some("gone"), 3), "old rows stay");
    }

    #[test]
    fn keys_that_end_the_view() {
        let mut state = state();
        assert_eq!(press(&mut state, "q"), KeyEffect::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        state.is_filtering = true;
        assert_eq!(state.press(interrupt), KeyEffect::Quit);
    }
}
