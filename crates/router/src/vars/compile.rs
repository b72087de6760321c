//! Compiles the JSON of an expression, in the notation of lua-resty-expr.
//!
//! Malformed expressions are refused with their place. Two rules differ from the Lua library: a comparison
//! without operator (`["arg_a", "V"]`) compares with the value as written, not in lower case, and a fifth
//! element is an error, not ignored.

use serde_json::Value as Json;

use super::expression::{Condition, Expression, Node, Operand, Order, Test};
use super::value::ComparedNumber;
use super::{BuiltinVariable, Pattern, PatternEngine, Variable};
use crate::cidr::CidrSet;

/// Why an expression cannot be compiled.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct ExpressionError {
    /// Where in the expression, such as `[2][0]`; `expression` for the whole.
    pub path: String,
    /// The fault there.
    pub reason: String,
}

impl Expression {
    /// Compiles an expression: a list of comparisons that must all hold, or `"AND"`, `"OR"`, `"!AND"` or
    /// `"!OR"` with two or more operands, which nest. A comparison is `[variable, operator, value]`, or
    /// `[variable, "!", operator, value]`. The empty list always holds.
    ///
    /// # Errors
    /// The first fault and its place.
    pub fn compile(json: &Json) -> Result<Self, ExpressionError> {
        let mut place = Place(Vec::new());
        let items = place.list(json)?;
        if let Some(first) = items.first().filter(|first| !first.is_array())
            && first.as_str().and_then(logic).is_none()
        {
            return Err(place.error(
                "a comparison must stand inside brackets of its own, as in `[[\"uri\", \"==\", \"/\"]]`",
            ));
        }
        let root = if items.is_empty() { all(Vec::new()) } else { place.node(items)? };
        Ok(Self { root })
    }
}

/// The indexes that lead to the compiler's present position.
struct Place(Vec<usize>);

impl Place {
    fn node(&mut self, items: &[Json]) -> Result<Node, ExpressionError> {
        if self.0.len() == DEPTH_MAX {
            return Err(self.error("nested deeper than 32 levels"));
        }
        let Some(first) = items.first() else {
            return Err(self.error("is empty"));
        };
        if first.is_array() {
            return Ok(all(self.nodes(items, 0)?));
        }
        let Some((any, negated)) = first.as_str().and_then(logic) else {
            return self.test(items);
        };
        if items.len() < 3 {
            return Err(self.error("a logical operator needs at least two operands"));
        }
        let nodes = self.nodes(items, 1)?.into_boxed_slice();
        Ok(if any { Node::Any { negated, nodes } } else { Node::All { negated, nodes } })
    }

    fn nodes(&mut self, items: &[Json], skip: usize) -> Result<Vec<Node>, ExpressionError> {
        let mut nodes = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate().skip(skip) {
            self.0.push(index);
            let inner = self.list(item)?;
            nodes.push(self.node(inner)?);
            self.0.pop();
        }
        Ok(nodes)
    }

    fn test(&self, items: &[Json]) -> Result<Node, ExpressionError> {
        let Some(name) = items[0].as_str() else {
            return Err(self.error("the first element must be the name of a variable"));
        };
        let variable = Variable::parse(name).map_err(|error| self.error(error))?;
        let (negated, operator, value) = match items {
            [_, value] if !value.as_str().is_some_and(is_operator) => (false, "==", value),
            [_, operator] => (false, self.operator(operator)?, &Json::Null),
            [_, operator, value] => (false, self.operator(operator)?, value),
            [_, not, operator, value] if not.as_str() == Some("!") => (true, self.operator(operator)?, value),
            [_, _, _, _] => {
                return Err(self.error("bad 'not' expression: the second of four elements must be `!`"));
            }
            _ => return Err(self.error("a comparison has two to four elements")),
        };
        if items.len() == 2 && operator == "==" && value.is_null() && items[1].is_null() {
            return Err(self.error("invalid expression: compare with null by `==` or `~=`"));
        }
        let condition = condition(operator, value).map_err(|reason| self.error(reason))?;
        if let Condition::Matches(pattern) = &condition
            && pattern.engine() == PatternEngine::Backtracking
            && matches!(variable, Variable::Builtin(BuiltinVariable::RequestBody))
        {
            return Err(self.error(format!(
                "`{}` uses look-around or back-references, which are not searched for in a whole `request_body`; \
                 write a pattern without them, or test a part of the body such as `post_arg.NAME`",
                pattern.as_str()
            )));
        }
        Ok(Node::Test(Box::new(Test { variable, negated, condition })))
    }

    fn operator<'j>(&self, json: &'j Json) -> Result<&'j str, ExpressionError> {
        let text = json
            .as_str()
            .ok_or_else(|| self.error(format!("invalid operator '{json}'; the operator must be a string")))?;
        if is_operator(text) {
            return Ok(text);
        }
        Err(self.error(format!("invalid operator '{text}'; use one of {}", OPERATORS.join(" "))))
    }

    fn list<'j>(&self, json: &'j Json) -> Result<&'j [Json], ExpressionError> {
        json.as_array().map(Vec::as_slice).ok_or_else(|| self.error("must be an array"))
    }

    fn error(&self, reason: impl ToString) -> ExpressionError {
        let path: String = self.0.iter().map(|index| format!("[{index}]")).collect();
        let path = if path.is_empty() { "expression".to_owned() } else { path };
        ExpressionError { path, reason: reason.to_string() }
    }
}

fn all(nodes: Vec<Node>) -> Node {
    Node::All { negated: false, nodes: nodes.into_boxed_slice() }
}

/// Whether a logical operator takes any of its operands, and whether it negates.
fn logic(name: &str) -> Option<(bool, bool)> {
    let (negated, name) = name.strip_prefix('!').map_or((false, name), |rest| (true, rest));
    if name.eq_ignore_ascii_case("OR") {
        return Some((true, negated));
    }
    name.eq_ignore_ascii_case("AND").then_some((false, negated))
}

fn is_operator(text: &str) -> bool {
    OPERATORS.iter().any(|operator| operator.eq_ignore_ascii_case(text))
}

fn condition(operator: &str, value: &Json) -> Result<Condition, String> {
    Ok(match operator.to_ascii_lowercase().as_str() {
        "==" => Condition::Equal(operand(value)?),
        "~=" => Condition::NotEqual(operand(value)?),
        ">" => ordered(Order::Greater, value)?,
        ">=" => ordered(Order::GreaterOrEqual, value)?,
        "<" => ordered(Order::Less, value)?,
        "<=" => ordered(Order::LessOrEqual, value)?,
        "~~" => Condition::Matches(pattern(value, false)?),
        "~*" => Condition::Matches(pattern(value, true)?),
        "has" => Condition::Has(operand(value)?),
        // A single value is no list, so no value is in it, as in the Lua library.
        "in" => Condition::In(value.as_array().into_iter().flatten().map(operand).collect::<Result<_, _>>()?),
        "ipmatch" => Condition::InNetwork(networks(value)?),
        _ => return Err(format!("invalid operator '{operator}'")),
    })
}

fn ordered(order: Order, value: &Json) -> Result<Condition, String> {
    let number = match value {
        Json::Number(number) => Some(compared(number)?),
        Json::String(text) => ComparedNumber::of_text(text.as_bytes()),
        _ => None,
    };
    Ok(number.map_or(Condition::Never, |number| Condition::Order(order, number)))
}

/// A number of the configuration, which was read as an integer of 64 bits or as a double.
fn compared(number: &serde_json::Number) -> Result<ComparedNumber, String> {
    let text = number.to_string();
    // A double with all its digits in front of the point was most likely an integer that has lost some of
    // them.
    let has_lost_digits = number.is_f64()
        && number.as_f64().is_some_and(|double| double.abs() >= BEYOND_DOUBLES)
        && text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count() >= DOUBLE_DIGITS;
    if has_lost_digits {
        return Err(format!(
            "the number {text} has lost digits when it was read; write it in quotation marks"
        ));
    }
    ComparedNumber::of_text(text.as_bytes()).ok_or_else(|| format!("{text} is no number"))
}

fn pattern(value: &Json, ignore_case: bool) -> Result<Pattern, String> {
    let text = match value {
        Json::Number(number) => number.to_string(),
        Json::String(text) => text.clone(),
        _ => return Err("the right side of `~~` and `~*` must be a regular expression".to_owned()),
    };
    Pattern::compile(&text, ignore_case).map_err(|error| error.to_string())
}

fn networks(value: &Json) -> Result<CidrSet, String> {
    let items = match value {
        Json::Array(items) => items.as_slice(),
        single => std::slice::from_ref(single),
    };
    let texts: Option<Vec<&str>> = items.iter().map(Json::as_str).collect();
    match texts.filter(|texts| !texts.is_empty()) {
        Some(texts) => CidrSet::parse(&texts).map_err(|error| format!("invalid ip address: {error}")),
        None => {
            Err("invalid ip address: the right side of `ipmatch` is an address or a list of them".to_owned())
        }
    }
}

fn operand(value: &Json) -> Result<Operand, String> {
    Ok(match value {
        Json::Array(_) | Json::Object(_) => Operand::Other,
        Json::Bool(value) => Operand::Boolean(*value),
        Json::Null => Operand::Nothing,
        Json::Number(number) => Operand::Number(compared(number)?),
        Json::String(text) => Operand::Text(text.as_str().into()),
    })
}

/// Doubles from here on, 2^63, may stand for an integer of more than 64 bits.
const BEYOND_DOUBLES: f64 = 9_223_372_036_854_775_808.0;
/// Digits that the shortest text of a double has only if it is not a round number.
const DOUBLE_DIGITS: usize = 16;
/// The operators, in any case.
const OPERATORS: [&str; 11] = ["==", "~=", ">", ">=", "<", "<=", "~~", "~*", "in", "has", "ipmatch"];
/// Levels of nesting, limited because evaluation recurses.
const DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests;
