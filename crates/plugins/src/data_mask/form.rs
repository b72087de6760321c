//! Masks arguments of a query or a form. Arguments that no rule concerns stay as they were sent, in their
//! order.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::{MaskAction, Masked};
use message::query::{arguments, decode};

/// Bytes that are encoded in an argument: all but letters, digits and what a mask is commonly made of.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// A rule for the arguments of a name.
pub(super) struct FormRule {
    name: Box<[u8]>,
    action: MaskAction,
}

impl FormRule {
    pub(super) fn new(name: &str, action: MaskAction) -> FormRule {
        FormRule { name: name.as_bytes().into(), action }
    }
}

/// An argument on its way through the rules.
struct Argument<'t> {
    name: Vec<u8>,
    /// None: there is no `=`.
    value: Option<Vec<u8>>,
    /// As it was sent; none once it was changed.
    sent: Option<&'t [u8]>,
}

/// `text` with its first `max_arguments` arguments masked, and without the others; none if that is `text`
/// itself.
pub(super) fn mask_form<'t>(rules: &[FormRule], text: &'t [u8], max_arguments: usize) -> Option<Vec<u8>> {
    if rules.is_empty() {
        return None;
    }
    let argument = |(whole, name, value): (&'t [u8], &[u8], &[u8])| Argument {
        name: decode(name).into_owned(),
        value: (whole.len() > name.len()).then(|| decode(value).into_owned()),
        sent: Some(whole),
    };
    let mut kept: Vec<Argument<'_>> = arguments(text).take(max_arguments).map(argument).collect();
    let mut is_changed = arguments(text).nth(max_arguments).is_some();
    for rule in rules {
        is_changed |= apply(rule, &mut kept);
    }
    is_changed.then(|| write(&kept))
}

/// Applies a rule; whether anything has changed.
fn apply(rule: &FormRule, arguments: &mut Vec<Argument<'_>>) -> bool {
    let mut is_changed = false;
    let mut is_replaced = false;
    arguments.retain_mut(|argument| {
        if *argument.name != *rule.name {
            return true;
        }
        let is_pattern = matches!(rule.action, MaskAction::Substitute(_));
        let masked = match &argument.value {
            // There is no text to search.
            None if is_pattern => Masked::Kept,
            value => rule.action.apply(value.as_deref().unwrap_or_default()),
        };
        // The first argument stands for all that are replaced.
        let masked = if is_replaced { Masked::Removed } else { masked };
        is_changed |= masked != Masked::Kept;
        match masked {
            Masked::Kept => true,
            Masked::Removed => false,
            Masked::Replaced(value) => {
                is_replaced = !is_pattern;
                (argument.value, argument.sent) = (Some(value), None);
                true
            }
        }
    });
    is_changed
}

fn write(arguments: &[Argument<'_>]) -> Vec<u8> {
    let mut text = Vec::new();
    for argument in arguments {
        if !text.is_empty() {
            text.push(b'&');
        }
        if let Some(sent) = argument.sent {
            text.extend_from_slice(sent);
            continue;
        }
        text.extend(percent_encode(&argument.name, ENCODED).flat_map(str::bytes));
        if let Some(value) = &argument.value {
            text.push(b'=');
            text.extend(percent_encode(value, ENCODED).flat_map(str::bytes));
        }
    }
    text
}
