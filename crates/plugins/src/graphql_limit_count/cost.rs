//! The cost of a query by its selections and the weights of the schema: `complexity` and `node_quantifier`.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::COST_MAX;
use super::decorations::{Decoration, Decorations, Positions, weight_at};
use super::schema_index::{FieldType, SchemaIndex};
use crate::shared::graphql::{
    GraphqlDocument, GraphqlField, GraphqlOperation, GraphqlSelection, Literal, OperationKind,
};

/// Selections that a walk expands. A real query has hundreds; fragments that spread each other twice would
/// make it exponential. So many take a few milliseconds of a worker.
const SELECTIONS_MAX: usize = 10_000;
/// Levels of a walk, fragments included, because it recurses. Queries have a dozen.
const LEVELS_MAX: usize = 500;

/// How the cost of a field is made of those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CostFormula {
    Complexity,
    NodeQuantifier,
}

/// The inputs of a count besides the document.
pub(super) struct Inputs<'a> {
    pub(super) decorations: &'a Decorations,
    /// The schema of the upstream; without one no weight applies.
    pub(super) schema: Option<&'a SchemaIndex>,
    /// The values of variables.
    pub(super) variables: Option<&'a Map<String, Value>>,
    /// Defaults of variables and of the schema's arguments count.
    pub(super) uses_defaults: bool,
}

/// The query expands beyond the limits of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManySelections;

/// The cost of the dearest of these operations.
///
/// # Errors
/// The walk is beyond its limits.
pub(super) fn query_cost(
    strategy: CostFormula,
    document: &GraphqlDocument,
    operations: &[&GraphqlOperation],
    inputs: &Inputs<'_>,
) -> Result<f64, TooManySelections> {
    let mut cost: f64 = 0.0;
    let mut left = SELECTIONS_MAX;
    for operation in operations {
        let root = inputs.schema.map(|schema| match operation.kind {
            OperationKind::Mutation => &*schema.mutation_type,
            OperationKind::Query | OperationKind::Subscription => &*schema.query_type,
        });
        let positions = inputs.decorations.begin(root);
        let mut walk =
            CostWalk { strategy, document, operation, inputs, open: HashSet::new(), left, levels: 0 };
        let node = CostNode { field: None, weight: weight_at(&positions), field_type: None };
        cost = cost.max(walk.cost(&node, &operation.selections, root, &positions, 1.0)?);
        left = walk.left;
    }
    Ok(cost)
}

/// A part of a cost, at most [`COST_MAX`]. Without the bound, nested arguments overflow to infinity, and an
/// argument of 0 around them makes that NaN, which would count as the smallest cost.
pub(super) fn bounded(cost: f64) -> f64 {
    if cost.is_finite() { cost.min(COST_MAX) } else { COST_MAX }
}

/// The walk through one operation.
struct CostWalk<'a> {
    strategy: CostFormula,
    document: &'a GraphqlDocument,
    operation: &'a GraphqlOperation,
    inputs: &'a Inputs<'a>,
    /// The fragments that the walk is inside of.
    open: HashSet<&'a str>,
    left: usize,
    levels: usize,
}

/// A node of the tree: a field, or the operation.
struct CostNode<'a> {
    field: Option<&'a GraphqlField>,
    weight: Option<Cow<'a, Decoration>>,
    field_type: Option<&'a FieldType>,
}

impl<'a> CostWalk<'a> {
    /// The cost of a node with these selections, which stand on `type_name` and are resolved `times` times.
    fn cost(
        &mut self,
        node: &CostNode<'a>,
        selections: &'a [GraphqlSelection],
        type_name: Option<&'a str>,
        positions: &Positions<'a>,
        times: f64,
    ) -> Result<f64, TooManySelections> {
        let (add, multiply, is_quantified) = self.weigh(node);
        match self.strategy {
            CostFormula::Complexity => {
                let below = self.below(selections, type_name, positions, 1.0)?;
                Ok(bounded(bounded(below * multiply) + add))
            }
            CostFormula::NodeQuantifier if is_quantified => {
                let below = self.below(selections, type_name, positions, bounded(times * multiply))?;
                Ok(bounded(bounded(times * add) + below))
            }
            CostFormula::NodeQuantifier => self.below(selections, type_name, positions, times),
        }
    }

    /// The sum of the costs of these selections. Fragments have no cost of their own.
    fn below(
        &mut self,
        selections: &'a [GraphqlSelection],
        type_name: Option<&'a str>,
        positions: &Positions<'a>,
        times: f64,
    ) -> Result<f64, TooManySelections> {
        self.levels += 1;
        if self.levels > LEVELS_MAX {
            return Err(TooManySelections);
        }
        let mut sum = 0.0;
        for selection in selections {
            self.left = self.left.checked_sub(1).ok_or(TooManySelections)?;
            sum += match selection {
                GraphqlSelection::Field(field) => self.of_field(field, type_name, positions, times)?,
                GraphqlSelection::Inline(fragment) => self.of_fragment(
                    fragment.on.as_deref(),
                    &fragment.selections,
                    type_name,
                    positions,
                    times,
                )?,
                GraphqlSelection::Spread(name) => {
                    let document = self.document;
                    match document.fragments.get(name) {
                        Some(fragment) if self.open.insert(name) => {
                            let on = fragment.on.as_deref();
                            let cost =
                                self.of_fragment(on, &fragment.selections, type_name, positions, times)?;
                            self.open.remove(&**name);
                            cost
                        }
                        // An unknown fragment, or a circle, which the upstream refuses.
                        _ => 0.0,
                    }
                }
            };
            sum = bounded(sum);
        }
        self.levels -= 1;
        Ok(sum)
    }

    fn of_field(
        &mut self,
        field: &'a GraphqlField,
        type_name: Option<&'a str>,
        positions: &Positions<'a>,
        times: f64,
    ) -> Result<f64, TooManySelections> {
        let (schema, decorations) = (self.inputs.schema, self.inputs.decorations);
        let field_type = schema.zip(type_name).and_then(|(schema, on)| schema.field(on, &field.name));
        let returned = field_type.and_then(|field| field.returns.as_deref());
        // Without a type no position is known.
        let next = match type_name {
            Some(_) => decorations.advance(positions, &field.name, returned),
            None => Positions::new(),
        };
        let node = CostNode { field: Some(field), weight: weight_at(&next), field_type };
        self.cost(&node, &field.selections, returned, &next, times)
    }

    fn of_fragment(
        &mut self,
        on: Option<&'a str>,
        selections: &'a [GraphqlSelection],
        type_name: Option<&'a str>,
        positions: &Positions<'a>,
        times: f64,
    ) -> Result<f64, TooManySelections> {
        // A type that the schema does not know changes nothing.
        let narrowed = on.filter(|on| self.inputs.schema.is_some_and(|schema| schema.knows(on)));
        match narrowed {
            Some(narrowed) if Some(narrowed) != type_name => {
                let inside = self.inputs.decorations.in_fragment(Some(narrowed), positions);
                self.below(selections, Some(narrowed), &inside, times)
            }
            _ => self.below(selections, type_name, positions, times),
        }
    }

    /// The cost of the node itself, the factor for what is below it, and whether an argument of the query is
    /// in the factor.
    fn weigh(&self, node: &CostNode<'_>) -> (f64, f64, bool) {
        let Some(weight) = &node.weight else { return (1.0, 1.0, false) };
        let mut add = bounded(weight.add_value.unwrap_or(1.0));
        let mut multiply = bounded(weight.mul_value.unwrap_or(1.0));
        let mut is_quantified = false;
        for name in weight.add_arguments.iter().flatten() {
            add = bounded(add + self.argument(node, name).unwrap_or(0.0));
        }
        for name in weight.mul_arguments.iter().flatten() {
            if let Some(value) = self.argument(node, name) {
                multiply = bounded(multiply * value);
                is_quantified = true;
            }
        }
        (add, multiply, is_quantified)
    }

    /// The number in an argument; none if it is absent or no count. A negative one would make the rest
    /// cheaper.
    fn argument(&self, node: &CostNode<'_>, name: &str) -> Option<f64> {
        let field = node.field?;
        let literal = field.arguments.iter().find(|(of, _)| &**of == name).map(|(_, literal)| literal);
        let value = match literal {
            Some(Literal::Scalar(number)) => *number,
            Some(Literal::Variable(variable)) => match self.variable(variable) {
                Some(number) => number,
                None => self.default_of(node, name),
            },
            Some(Literal::Other) | None => self.default_of(node, name),
        };
        value.filter(|number| number.is_finite() && *number >= 0.0)
    }

    /// The number in a variable: the value that came with the request, else its default. None if there is
    /// neither.
    fn variable(&self, name: &str) -> Option<Option<f64>> {
        if let Some(value) = self.inputs.variables.and_then(|variables| variables.get(name)) {
            return Some(match value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            });
        }
        let mut defaults = self.operation.defaults.iter().filter(|_| self.inputs.uses_defaults);
        match defaults.find(|(of, _)| &**of == name)? {
            (_, Literal::Scalar(number)) => Some(*number),
            _ => None,
        }
    }

    /// The default that the schema gives an argument.
    fn default_of(&self, node: &CostNode<'_>, name: &str) -> Option<f64> {
        let field_type = node.field_type.filter(|_| self.inputs.uses_defaults)?;
        field_type.defaults.iter().find(|(of, _)| &**of == name).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests;
