//! A compiled expression and its evaluation.
//!
//! It does not know the JSON form, which `compile.rs` reads.

use std::cmp::Ordering;

use super::value::ComparedNumber;
use super::{GaveUp, Pattern, Value, Variable, VariableSource};
use crate::cidr::CidrSet;

/// A condition over the variables of a request, as routes have in `vars` and plugins in `_meta.filter`.
#[derive(Clone, Debug)]
pub struct Expression {
    pub(super) root: Node,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    /// All (or, negated, not all) of these.
    All { negated: bool, nodes: Box<[Node]> },
    /// Any (or, negated, none) of these.
    Any { negated: bool, nodes: Box<[Node]> },
    /// One comparison.
    Test(Box<Test>),
}

#[derive(Clone, Debug)]
pub(super) struct Test {
    pub(super) variable: Variable,
    pub(super) negated: bool,
    pub(super) condition: Condition,
}

#[derive(Clone, Debug)]
pub(super) enum Condition {
    Equal(Operand),
    Has(Operand),
    In(Box<[Operand]>),
    InNetwork(CidrSet),
    Matches(Pattern),
    /// The right side is not a number: always false, as in APISIX.
    Never,
    NotEqual(Operand),
    Order(Order, ComparedNumber),
}

/// The value that a configuration compares with.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    Boolean(bool),
    /// The variable is unset.
    Nothing,
    Number(ComparedNumber),
    /// A list or an object: equal to nothing.
    Other,
    Text(Box<str>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Expression {
    /// Whether the expression holds. If that is undecided, because the search for a pattern was given up,
    /// neither it nor its negation holds, and the source is told by [`VariableSource::search_gave_up`].
    pub fn evaluate<S: VariableSource + ?Sized>(&self, source: &S) -> bool {
        self.verdict(source).unwrap_or_else(|reason| {
            source.search_gave_up(reason);
            false
        })
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// The search for a pattern was given up, and the result depends on it.
    pub fn verdict<S: VariableSource + ?Sized>(&self, source: &S) -> Result<bool, GaveUp> {
        self.root.verdict(source)
    }

    /// Whether evaluation may have to read the request's body.
    #[must_use]
    pub fn uses_request_body(&self) -> bool {
        let mut uses = false;
        self.root.for_each_test(&mut |test| uses |= test.variable.uses_request_body());
        uses
    }

    /// The patterns in the expression, with their engines.
    #[must_use]
    pub fn patterns(&self) -> Vec<&Pattern> {
        let mut patterns = Vec::new();
        self.root.for_each_test(&mut |test| {
            if let Condition::Matches(pattern) = &test.condition {
                patterns.push(pattern);
            }
        });
        patterns
    }
}

impl Node {
    fn verdict<S: VariableSource + ?Sized>(&self, source: &S) -> Result<bool, GaveUp> {
        Ok(match self {
            // All hold if none is false.
            Self::All { negated, nodes } => any(nodes, false, source)? == *negated,
            Self::Any { negated, nodes } => any(nodes, true, source)? != *negated,
            Self::Test(test) => {
                test.condition.holds(source.variable(&test.variable).as_ref())? != test.negated
            }
        })
    }

    fn for_each_test<'e>(&'e self, visit: &mut dyn FnMut(&'e Test)) {
        match self {
            Self::All { nodes, .. } | Self::Any { nodes, .. } => {
                nodes.iter().for_each(|node| node.for_each_test(visit));
            }
            Self::Test(test) => visit(test),
        }
    }
}

/// Whether the verdict of any of `nodes` is `wanted`. An undecided node matters only if no other node is
/// `wanted`.
fn any<S: VariableSource + ?Sized>(nodes: &[Node], wanted: bool, source: &S) -> Result<bool, GaveUp> {
    let mut unknown = None;
    for node in nodes {
        match node.verdict(source) {
            Ok(verdict) if verdict == wanted => return Ok(true),
            Ok(_) => {}
            Err(reason) => unknown = Some(reason),
        }
    }
    unknown.map_or(Ok(false), Err)
}

impl Condition {
    fn holds(&self, value: Option<&Value<'_>>) -> Result<bool, GaveUp> {
        Ok(match self {
            Self::Equal(operand) => operand.equals_coerced(value),
            Self::Has(operand) => match value {
                Some(Value::List(items)) => items.iter().any(|item| operand.equals(Some(item))),
                _ => false,
            },
            Self::In(operands) => operands.iter().any(|operand| operand.equals(value)),
            Self::InNetwork(networks) => value
                .and_then(|value| std::str::from_utf8(&value.text()).ok()?.parse().ok())
                .is_some_and(|address| networks.contains(address)),
            Self::Matches(pattern) => match value {
                Some(value) => pattern.is_match(&value.text())?,
                None => false,
            },
            Self::Never => false,
            Self::NotEqual(operand) => !operand.equals_coerced(value),
            Self::Order(order, right) => {
                value.and_then(|left| right.compare(left)).is_some_and(|found| order.holds(found))
            }
        })
    }
}

impl Operand {
    /// Equality of `==`: a number on the right converts the left side to a number.
    fn equals_coerced(&self, value: Option<&Value<'_>>) -> bool {
        match self {
            Self::Number(number) => value.and_then(|left| number.compare(left)).is_some_and(Ordering::is_eq),
            _ => self.equals(value),
        }
    }

    /// Equality of `in` and `has`: text is not converted to a number.
    fn equals(&self, value: Option<&Value<'_>>) -> bool {
        match (self, value) {
            (Self::Boolean(right), Some(Value::Boolean(left))) => left == right,
            (Self::Nothing, None) => true,
            (Self::Number(right), Some(left @ (Value::Number(_) | Value::Digits(_)))) => {
                right.compare(left).is_some_and(Ordering::is_eq)
            }
            (Self::Text(right), Some(left)) => left.is_text(right.as_bytes()),
            _ => false,
        }
    }
}

impl Order {
    /// Whether it holds where the left side is `found` to the right side.
    fn holds(self, found: Ordering) -> bool {
        match self {
            Self::Greater => found.is_gt(),
            Self::GreaterOrEqual => found.is_ge(),
            Self::Less => found.is_lt(),
            Self::LessOrEqual => found.is_le(),
        }
    }
}
