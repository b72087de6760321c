//! The patterns of a schema of a user. A small one on the linear engine is left to the library. All others
//! run under [`KEYWORD`], which counts what a search costs: large programs on the linear engine, and patterns
//! with look-around or back-references on the backtracking engine of `router`. Knows no value.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::json::Node;
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, ValidationError};
use router::vars::{BacktrackingOptions, BacktrackingRegex};
use serde_json::{Map, Value, json};

use crate::validate::metered::{CheckBudget, MeteredJson, MeteredNode, charge, spend};

/// The keyword under which the library gets the patterns that are searched with a count.
pub(in crate::validate) const KEYWORD: &str = "x-counted-pattern";

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 16 * 1024;
/// Different patterns of a schema.
const PATTERNS_MAX: usize = 2_000;
/// Bytes that the translation of all patterns from ECMA-262 reads: it starts anew for each class such as
/// `\d`.
const TRANSLATED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Bytes that a class adds to its pattern: `\s` becomes a list of ranges.
const CLASS_BYTES: usize = 192;
/// Sizes of compiled patterns on the linear engine that are told apart. A search in one of the first is cheap
/// whatever the text is; none may be larger than the last.
const PROGRAM_BYTES: [usize; 4] = [4 * 1024, 32 * 1024, 256 * 1024, 1024 * 1024];
/// Compiled patterns of a schema on the linear engine in all: a program of 1 MiB takes some 10 ms to compile.
const ALL_PROGRAM_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Memory of the cache of one pattern.
const CACHE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a program that add one step for each byte of text: once its cache is full, the engine looks at
/// each state.
const PROGRAM_BYTES_A_STEP: u64 = 400;
/// Bytes walked by the backtracking engine that count as one step.
const WALKED_BYTES_A_STEP: u64 = 4;
/// Bytes of text on the linear engine that count as one step.
const TEXT_BYTES_A_STEP: u64 = 16;

/// The longest name of a property where a name has a pattern with look-around or back-references, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Steps back of a search in such a name; a name that needs more breaks the schema.
const NAME_BACKTRACKS_MAX: usize = 256;
/// Steps for such a search: each step back may walk over the name once.
const NAME_STEPS: u64 = 2_000;

/// The patterns of one schema.
pub(super) struct SchemaPatterns {
    /// The engine for names of properties, and for small patterns.
    pub(super) engine: NameEngine,
    /// The cost of the patterns, without a limit of steps.
    pub(super) budget: CheckBudget,
}

/// The engine that the library uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameEngine {
    Linear,
    Backtracking,
}

/// How a pattern is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternKind {
    /// On the linear engine, with a program of at most that size.
    Linear(usize),
    Backtracking,
}

/// Gives the patterns that are searched with a count another keyword.
///
/// # Errors
/// A pattern is malformed or too large, or there are too many; with the place of the pattern.
pub(super) fn count_patterns(schema: &mut Value) -> Result<SchemaPatterns, String> {
    let mut walk = PatternWalk {
        kinds: HashMap::new(),
        translated: 0,
        program: 0,
        names_backtrack: 0,
        names_program: 0,
    };
    walk.schema(schema, &mut String::new())?;
    let backtracks = walk.names_backtrack > 0;
    let budget = CheckBudget {
        steps: 0,
        steps_a_name_byte: (walk.names_program as u64).div_ceil(PROGRAM_BYTES_A_STEP),
        steps_a_name: NAME_STEPS * walk.names_backtrack,
        name_bytes_max: if backtracks { NAME_BYTES_MAX } else { usize::MAX },
    };
    let engine = if backtracks { NameEngine::Backtracking } else { NameEngine::Linear };
    Ok(SchemaPatterns { engine, budget })
}

struct PatternWalk {
    kinds: HashMap<String, PatternKind>,
    translated: usize,
    program: usize,
    /// The most names with look-around or back-references of one object.
    names_backtrack: u64,
    /// The largest programs of the names of one object, together, without the smallest size.
    names_program: usize,
}

/// Keywords with schemas by name.
const NAMED: [&str; 6] =
    ["properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies"];
/// Keywords that hold values, not schemas.
const VALUES: [&str; 4] = ["enum", "const", "default", "examples"];

impl PatternWalk {
    fn schema(&mut self, schema: &mut Value, place: &mut String) -> Result<(), String> {
        match schema {
            Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(index, item)| {
                below(place, &index.to_string(), |place| self.schema(item, place))
            }),
            Value::Object(fields) => self.fields(fields, place),
            _ => Ok(()),
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, place: &mut String) -> Result<(), String> {
        if let Some(Value::Object(named)) = fields.get("patternProperties") {
            self.names(named, place)?;
        }
        let pattern = fields.get("pattern").and_then(Value::as_str);
        let kind = match pattern {
            Some(pattern) => Some(self.kind(pattern).map_err(|reason| format!("{place}/pattern: {reason}"))?),
            None => None,
        };
        if kind.is_some_and(|kind| kind != PatternKind::Linear(PROGRAM_BYTES[0]))
            && let Some(pattern) = fields.shift_remove("pattern")
        {
            fields.insert(KEYWORD.to_owned(), pattern);
        }
        for (name, value) in fields.iter_mut() {
            if VALUES.contains(&&**name) {
                continue;
            }
            below(place, name, |place| match value {
                Value::Object(named) if NAMED.contains(&&**name) => named
                    .iter_mut()
                    .try_for_each(|(name, schema)| below(place, name, |place| self.schema(schema, place))),
                value => self.schema(value, place),
            })?;
        }
        Ok(())
    }

    /// The names of properties of one object.
    fn names(&mut self, named: &Map<String, Value>, place: &str) -> Result<(), String> {
        let (mut backtrack, mut program) = (0, 0);
        for name in named.keys() {
            match self.kind(name).map_err(|reason| format!("{place}/patternProperties: {reason}"))? {
                PatternKind::Backtracking => backtrack += 1,
                PatternKind::Linear(bytes) if bytes > PROGRAM_BYTES[0] => program += bytes,
                PatternKind::Linear(_) => {}
            }
        }
        self.names_backtrack = self.names_backtrack.max(backtrack);
        self.names_program = self.names_program.max(program);
        Ok(())
    }

    fn kind(&mut self, pattern: &str) -> Result<PatternKind, String> {
        if let Some(known) = self.kinds.get(pattern) {
            return Ok(*known);
        }
        let text = || shortened(pattern);
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("`{}` has more than {PATTERN_BYTES_MAX} bytes", text()));
        }
        if self.kinds.len() >= PATTERNS_MAX {
            return Err(format!("the schema has more than {PATTERNS_MAX} patterns"));
        }
        self.translated += translated_bytes(pattern);
        if self.translated > TRANSLATED_BYTES_MAX {
            return Err(format!("`{}`: the patterns have too many classes such as \\d and \\s", text()));
        }
        let kind = kind_of(pattern).map_err(|reason| format!("`{}` {reason}", text()))?;
        if let PatternKind::Linear(bytes) = kind {
            self.program += bytes;
        }
        if self.program > ALL_PROGRAM_BYTES_MAX {
            return Err(format!("`{}`: the patterns of the schema are too large together", text()));
        }
        self.kinds.insert(pattern.to_owned(), kind);
        Ok(kind)
    }
}

/// Does the work with the place one step further down.
fn below<R>(place: &mut String, step: &str, work: impl FnOnce(&mut String) -> R) -> R {
    let length = place.len();
    place.push('/');
    place.push_str(step);
    let result = work(place);
    place.truncate(length);
    result
}

fn shortened(pattern: &str) -> String {
    const SHOWN: usize = 100;
    match pattern.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &pattern[..end]),
        None => pattern.to_owned(),
    }
}

/// Bytes that the translation of a pattern reads.
fn translated_bytes(pattern: &str) -> usize {
    let classes =
        pattern.as_bytes().windows(2).filter(|pair| pair[0] == b'\\' && b"dDwWsSc".contains(&pair[1]));
    let classes = classes.count();
    (classes + 1) * (pattern.len() + classes * CLASS_BYTES)
}

fn kind_of(pattern: &str) -> Result<PatternKind, String> {
    for bytes in PROGRAM_BYTES {
        if alone(pattern, bytes).is_some() {
            return Ok(PatternKind::Linear(bytes));
        }
    }
    match backtracking(pattern) {
        Ok(_) => Ok(PatternKind::Backtracking),
        Err(reason) => Err(format!("is not a usable regular expression: {reason}")),
    }
}

type Alone = jsonschema::Validator<MeteredJson>;

/// A schema that consists of the pattern alone; none where the linear engine does not have it in that size.
fn alone(pattern: &str, bytes: usize) -> Option<Alone> {
    let engine = PatternOptions::regex().size_limit(bytes).dfa_size_limit(CACHE_BYTES_MAX);
    let options = jsonschema::options_for::<MeteredJson>().with_draft(jsonschema::Draft::Draft7);
    options.with_pattern_options(engine).build(&json!({ "pattern": pattern })).ok()
}

/// The pattern on the backtracking engine, in the first of the sizes that it fits in, and that size.
fn backtracking(pattern: &str) -> Result<(BacktrackingRegex, usize), String> {
    let options = BacktrackingOptions { unicode: true, ..BacktrackingOptions::default() };
    let mut reason = String::new();
    for bytes in PROGRAM_BYTES {
        match BacktrackingRegex::compile(pattern, options, bytes, CACHE_BYTES_MAX) {
            Ok(regex) => return Ok((regex, bytes)),
            Err(error) => reason = error,
        }
    }
    Err(reason)
}

/// A pattern that is searched for with a count.
struct CountedPattern {
    source: String,
    search: PatternMatcher,
}

enum PatternMatcher {
    Linear(Box<Alone>, u64),
    Backtracking(Box<BacktrackingRegex>, u64),
}

/// Makes [`KEYWORD`].
pub(super) fn make_pattern_keyword<'a>(
    _schema: &'a Map<String, Value>,
    pattern: &'a Value,
    _place: Location,
) -> Result<Box<dyn for<'i> Keyword<'i, MeteredJson>>, ValidationError<'a>> {
    let source = pattern.as_str().unwrap_or_default();
    let linear = PROGRAM_BYTES.into_iter().find_map(|bytes| Some((alone(source, bytes)?, bytes)));
    let search = match linear {
        Some((alone, bytes)) => PatternMatcher::Linear(Box::new(alone), bytes as u64 / PROGRAM_BYTES_A_STEP),
        None => {
            let (regex, bytes) = backtracking(source).map_err(ValidationError::custom)?;
            // The engine may have made it linear, which it does not count.
            let steps_a_byte = if regex.is_linear() { bytes as u64 / PROGRAM_BYTES_A_STEP } else { 0 };
            PatternMatcher::Backtracking(Box::new(regex), steps_a_byte)
        }
    };
    Ok(Box::new(CountedPattern { source: source.to_owned(), search }))
}

impl CountedPattern {
    fn matches(&self, node: MeteredNode<'_>) -> bool {
        let Some(text) = node.as_string() else { return true };
        match &self.search {
            PatternMatcher::Linear(alone, steps_a_byte) => {
                charge(text.len() as u64 * steps_a_byte);
                alone.is_valid(node)
            }
            PatternMatcher::Backtracking(regex, steps_a_byte) => {
                charge(text.len() as u64 * steps_a_byte);
                let (found, walked) = regex.is_match_counted(text.as_bytes());
                charge(walked / WALKED_BYTES_A_STEP + text.len() as u64 / TEXT_BYTES_A_STEP);
                // A search that was given up is neither a match nor a miss, so that the whole check has no
                // result.
                found.unwrap_or_else(|_| spend())
            }
        }
    }
}

impl<'i> Keyword<'i, MeteredJson> for CountedPattern {
    fn validate(&self, node: MeteredNode<'i>) -> Result<(), ValidationError<'i>> {
        match self.matches(node) {
            true => Ok(()),
            false => Err(ValidationError::custom(self.source.clone())),
        }
    }

    fn is_valid(&self, node: MeteredNode<'i>) -> bool {
        self.matches(node)
    }
}

/// Options of the library for schemas of users.
type Options<'o> = jsonschema::ValidationOptions<'o, Arc<dyn jsonschema::Retrieve>, MeteredJson>;

/// The engine of the library, with its limits.
pub(super) fn with_engine<'o>(options: Options<'o>, engine: NameEngine) -> Options<'o> {
    let largest = PROGRAM_BYTES[PROGRAM_BYTES.len() - 1];
    match engine {
        NameEngine::Linear => options.with_pattern_options(
            PatternOptions::regex().size_limit(largest).dfa_size_limit(CACHE_BYTES_MAX),
        ),
        NameEngine::Backtracking => options.with_pattern_options(
            PatternOptions::fancy_regex()
                .backtrack_limit(NAME_BACKTRACKS_MAX)
                .size_limit(largest)
                .dfa_size_limit(CACHE_BYTES_MAX),
        ),
    }
}
