//! `ngx.re`: patterns of PCRE. A pattern runs on the linear-time engine; one with look-around or
//! back-references runs on the backtracking engine, which gives up on long texts and after a number of steps,
//! so that no text of a client holds up a worker.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Value};
use regex::bytes::RegexBuilder;
use router::vars::{BacktrackingOptions, BacktrackingRegex, GroupPlaces, own_groups, rewrite_line_ends};

use super::Adder;
use crate::runtime::limits::{PATTERN_MAX_BYTES, PATTERNS_MAX};

/// Compiled size of one pattern.
const PROGRAM_BYTES_MAX: usize = 1 << 20;
/// Cache of the lazy automaton, for each pattern and thread.
const CACHE_BYTES_MAX: usize = 1 << 20;
/// Bytes of text that count as one step.
const BYTES_A_STEP: usize = 16;
/// Steps of a search on the backtracking engine, beside those for its bytes.
const BACKTRACKING_STEPS: u64 = 1_000;

/// A compiled pattern with the names of its groups.
struct RegexPattern {
    engine: RegexEngine,
    names: Vec<(usize, String)>,
    /// A search begins where the last match of a call has ended, and nowhere else: the letter `a`.
    is_anchored: bool,
}

enum RegexEngine {
    /// With the groups that are not the pattern's own.
    Linear(regex::bytes::Regex, Vec<usize>),
    Backtracking(BacktrackingRegex),
}

/// The compiled patterns of one interpreter, by options and text.
type Patterns = RefCell<HashMap<(Vec<u8>, Vec<u8>), Rc<RegexPattern>>>;

pub(super) fn install_regexes(add: &Adder<'_>) -> mlua::Result<()> {
    let kept = Patterns::default();
    add.add("re_groups", move |state, lua, values: (LuaString, LuaString, Option<LuaString>, i64)| {
        let (text, source, options, from) = values;
        let text = text.as_bytes();
        let options = options.map(|options| options.as_bytes().to_vec()).unwrap_or_default();
        let pattern = match pattern(&kept, &source.as_bytes(), options) {
            Ok(pattern) => pattern,
            Err(reason) => return (Value::Nil, reason).into_lua_multi(lua),
        };
        let Some(from) = usize::try_from(from - 1).ok().filter(|from| *from <= text.len()) else {
            return Value::Nil.into_lua_multi(lua);
        };
        let is_linear = matches!(pattern.engine, RegexEngine::Linear(..));
        let steps = ((text.len() - from) / BYTES_A_STEP) as u64;
        state.budget.charge(1 + steps + if is_linear { 0 } else { BACKTRACKING_STEPS })?;
        match pattern.groups(&text, from) {
            Ok(Some(places)) => found(lua, &pattern, &text, &places),
            Ok(None) => Value::Nil.into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    })
}

/// The results of a search: the first byte, the last one, and the table of the groups.
fn found(lua: &Lua, pattern: &RegexPattern, text: &[u8], places: &GroupPlaces) -> mlua::Result<MultiValue> {
    let Some(Some((start, end))) = places.first().copied() else { return Value::Nil.into_lua_multi(lua) };
    let groups = lua.create_table()?;
    for (index, place) in places.iter().enumerate() {
        match place {
            Some((start, end)) => groups.raw_set(index, lua.create_string(&text[*start..*end])?)?,
            // A group that took no part.
            None => groups.raw_set(index, false)?,
        }
    }
    for (index, name) in &pattern.names {
        let value: Value = groups.raw_get(*index)?;
        groups.raw_set(name.as_str(), value)?;
    }
    let first_places = lua.create_table()?;
    for (index, place) in places.iter().enumerate() {
        if let Some((start, end)) = place {
            first_places.raw_set(index * 2, *start as f64 + 1.0)?;
            first_places.raw_set(index * 2 + 1, *end as f64)?;
        }
    }
    (start as f64 + 1.0, end as f64, groups, first_places).into_lua_multi(lua)
}

fn pattern(kept: &Patterns, source: &[u8], options: Vec<u8>) -> Result<Rc<RegexPattern>, String> {
    if source.len() > PATTERN_MAX_BYTES {
        return Err(format!("a pattern has at most {PATTERN_MAX_BYTES} bytes"));
    }
    let key = (options, source.to_vec());
    if let Some(known) = kept.borrow().get(&key) {
        return Ok(known.clone());
    }
    let compiled = Rc::new(compile(source, &key.0)?);
    let mut kept = kept.borrow_mut();
    if kept.len() >= PATTERNS_MAX {
        kept.clear();
    }
    kept.insert(key, compiled.clone());
    Ok(compiled)
}

fn compile(source: &[u8], options: &[u8]) -> Result<RegexPattern, String> {
    let source =
        str::from_utf8(source).map_err(|_| "pcre_compile() failed: the pattern is not UTF-8".to_owned())?;
    let has = |letter| options.contains(&letter);
    if let Some(unknown) = options.iter().find(|letter| !b"adDijJmosuUx".contains(letter)) {
        return Err(format!("unknown flag \"{}\"", char::from(*unknown)));
    }
    let is_anchored = has(b'a');
    let anchored;
    let source = if is_anchored {
        anchored = format!("\\A(?:{source})");
        &anchored
    } else {
        source
    };
    let rewritten = if has(b'm') { None } else { rewrite_line_ends(source, has(b'x')) };
    let (linear_source, inserted) = match rewritten {
        Some(rewritten) => (rewritten.source, rewritten.inserted),
        None => (source.to_owned(), Vec::new()),
    };
    let linear = |is_unicode| {
        RegexBuilder::new(&linear_source)
            .case_insensitive(has(b'i'))
            .multi_line(has(b'm'))
            .dot_matches_new_line(has(b's'))
            .ignore_whitespace(has(b'x'))
            .unicode(is_unicode)
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(CACHE_BYTES_MAX)
            .build()
    };
    let is_unicode = has(b'u') || has(b'U');
    if let Ok(regex) = linear(is_unicode).or_else(|_| linear(true)) {
        let own = regex.capture_names().enumerate().filter(|(index, _)| !inserted.contains(index));
        let names =
            own.enumerate().filter_map(|(index, (_, name))| Some((index, name?.to_owned()))).collect();
        return Ok(RegexPattern { engine: RegexEngine::Linear(regex, inserted), names, is_anchored });
    }
    let options = BacktrackingOptions {
        ignore_case: has(b'i'),
        multi_line: has(b'm'),
        dot_all: has(b's'),
        extended: has(b'x'),
        unicode: false,
    };
    let regex = BacktrackingRegex::compile(source, options, PROGRAM_BYTES_MAX, CACHE_BYTES_MAX)
        .map_err(|reason| format!("pcre_compile() failed: {reason}"))?;
    // The engine does not tell the names of groups, so that they are read from the text.
    let names = fancy_regex::Regex::new(source).map(|regex| {
        let names = regex.capture_names().enumerate();
        names.filter_map(|(index, name)| Some((index, name?.to_owned()))).collect()
    });
    Ok(RegexPattern {
        engine: RegexEngine::Backtracking(regex),
        names: names.unwrap_or_default(),
        is_anchored,
    })
}

impl RegexPattern {
    fn groups(&self, text: &[u8], from: usize) -> Result<Option<GroupPlaces>, String> {
        // `\A` is the begin of the text: an anchored search sees only what is left of it.
        let (text, offset) = if self.is_anchored { (&text[from..], from) } else { (text, 0) };
        let from = from - offset;
        let places = match &self.engine {
            RegexEngine::Linear(regex, inserted) => {
                regex.captures_at(text, from).map(|captures| own_groups(&captures, inserted))
            }
            RegexEngine::Backtracking(regex) => {
                regex.groups_from(text, from).map_err(|reason| format!("pcre_exec() failed: {reason}"))?
            }
        };
        let shift = |(start, end)| (start + offset, end + offset);
        Ok(places.map(|places: GroupPlaces| places.into_iter().map(|place| place.map(shift)).collect()))
    }
}

/// The places of the first match, for tests.
#[cfg(test)]
fn groups_of(source: &str, options: &str, text: &[u8]) -> Result<Option<GroupPlaces>, String> {
    compile(source.as_bytes(), options.as_bytes())?.groups(text, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_give_the_places_of_groups() {
        let check = |source: &str, options: &str, text: &str, expected: Option<(usize, usize)>| {
            let found = groups_of(source, options, text.as_bytes()).unwrap();
            assert_eq!(found.and_then(|places| places[0]), expected, "{source}");
        };
        check("(\\d+)-(\\d+)", "jo", "x 12-34", Some((2, 7)));
        check("B", "i", "abc", Some((1, 2)));
        check("b", "a", "abc", None);
        check("(?<=a)b", "", "ab", Some((1, 2)));
        check("(a)\\1", "", "baa", Some((1, 3)));
        assert!(groups_of("(", "", b"").is_err());
        assert!(groups_of("a", "q", b"").is_err());
        assert!(groups_of("(?<!q)[a-z]+Z$", "", &[b'a'; 4_000]).is_err(), "it gives up");
    }
}
