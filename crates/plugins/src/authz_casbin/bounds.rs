//! Bounds of the expressions that the library evaluates: matchers, and values of a policy that a matcher
//! passes to `eval`. The library reads and evaluates them by recursion without a limit, and a stack that
//! overflows ends the process. The text is measured before the library sees it; strings and comments count
//! like all else, because their ends are not known.

use casbin::{DefaultModel, Model};

/// The longest matcher or value of a policy, in bytes.
const EXPRESSION_BYTES_MAX: usize = 4 * 1024;
/// Brackets inside each other.
const NESTED_BRACKETS_MAX: usize = 64;
/// Opened brackets of one expression, however they are placed: a string may hold closing ones.
const BRACKETS_MAX: usize = 200;
/// Signs such as `!` and `-` in a row.
const SIGNS_IN_A_ROW_MAX: usize = 16;
/// Words and signs of one expression: `a && b && c` is as deep as it has operators.
const WORDS_MAX: usize = 1_000;
/// Functions that call others by their name, which is not in the text.
const CALLING_WORDS: [&str; 4] = ["eval", "Fn", "call", "curry"];

/// Checks the matchers of a model. The result says whether values of a policy are evaluated.
///
/// # Errors
/// The limit that a matcher exceeds.
pub(super) fn check_matchers(model: &DefaultModel) -> Result<bool, String> {
    let mut evaluates = false;
    for (name, matcher) in model.get_model().get("m").into_iter().flatten() {
        let at = |reason: String| format!("model: matcher `{name}`: {reason}");
        check_size(&matcher.value).map_err(at)?;
        let without_eval = without_eval_of_values(&matcher.value);
        evaluates |= without_eval.len() != matcher.value.len();
        if words(&without_eval).any(|word| CALLING_WORDS.contains(&word)) {
            let reason =
                "eval takes one value of the policy, eval(p.NAME); Fn, call and curry are not available";
            return Err(at(reason.to_owned()));
        }
    }
    Ok(evaluates)
}

/// Checks a line of a policy, the values of which are evaluated or not.
///
/// # Errors
/// The limit that it exceeds.
pub(super) fn check_values(line: &str, are_evaluated: bool) -> Result<(), String> {
    if line.split(',').any(|value| value.len() > EXPRESSION_BYTES_MAX) {
        return Err(too_long("a value"));
    }
    if !are_evaluated {
        return Ok(());
    }
    check_size(line)?;
    match words(line).any(|word| CALLING_WORDS.contains(&word)) {
        true => Err(format!("a value that is evaluated has none of {}", CALLING_WORDS.join(", "))),
        false => Ok(()),
    }
}

fn too_long(what: &str) -> String {
    format!("{what} has more than {EXPRESSION_BYTES_MAX} bytes")
}

fn check_size(text: &str) -> Result<(), String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(too_long("it"));
    }
    let (mut nested, mut brackets, mut in_a_row, mut count) = (0_usize, 0, 0, 0);
    let mut is_in_word = false;
    for character in text.chars().filter(|character| !character.is_whitespace()) {
        let is_word = character.is_alphanumeric() || character == '_';
        count += usize::from(!is_word || !is_in_word);
        is_in_word = is_word;
        match character {
            '(' | '[' | '{' => {
                nested += 1;
                brackets += 1;
            }
            ')' | ']' | '}' => nested = nested.saturating_sub(1),
            _ => {}
        }
        let is_sign = matches!(character, '!' | '-' | '+' | '~');
        in_a_row = if is_sign { in_a_row + 1 } else { 0 };
        if nested > NESTED_BRACKETS_MAX {
            return Err(format!("it has more than {NESTED_BRACKETS_MAX} brackets inside each other"));
        }
        if brackets > BRACKETS_MAX {
            return Err(format!("it has more than {BRACKETS_MAX} brackets"));
        }
        if in_a_row > SIGNS_IN_A_ROW_MAX {
            return Err(format!("it has more than {SIGNS_IN_A_ROW_MAX} signs in a row"));
        }
        if count > WORDS_MAX {
            return Err(format!("it has more than {WORDS_MAX} words and signs"));
        }
    }
    Ok(())
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
}

/// The text without each `eval(p.NAME)`.
fn without_eval_of_values(text: &str) -> String {
    let mut rest = text;
    let mut without = String::with_capacity(text.len());
    while let Some(start) = rest.find("eval") {
        let (before, eval) = rest.split_at(start);
        without.push_str(before);
        let is_word = !before.ends_with(|character: char| character.is_alphanumeric() || character == '_');
        match eval_of_value(&eval["eval".len()..]).filter(|_| is_word) {
            Some(behind) => rest = behind,
            None => {
                without.push_str("eval");
                rest = &eval["eval".len()..];
            }
        }
    }
    without.push_str(rest);
    without
}

/// The text behind `(p.NAME)`, if it begins so.
fn eval_of_value(text: &str) -> Option<&str> {
    let (argument, behind) = text.trim_start().strip_prefix('(')?.split_once(')')?;
    let name = argument.trim().strip_prefix('p')?.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let name = name.strip_prefix(['.', '_'])?;
    let is_name =
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    is_name.then_some(behind)
}
