//! From the syntax tree of the parser to a [`GraphqlDocument`]. The parser accepts a few things that are no
//! GraphQL, such as an argument without a value; they are faults here.

use std::cell::Cell;

use apollo_parser::Parser;
use apollo_parser::cst::{self, CstNode, Definition, Value};

use super::{
    DEPTH_MAX, DocumentFault, Fragment, GraphqlDocument, GraphqlField, GraphqlOperation, GraphqlSelection,
    Literal, OperationKind, TOKENS_MAX,
};

/// Parses `text`.
///
/// # Errors
/// It is malformed or beyond a limit.
pub(super) fn document(text: &str) -> Result<GraphqlDocument, DocumentFault> {
    if text.trim().is_empty() {
        return Ok(GraphqlDocument::default());
    }
    let line = |index: usize| {
        let before = text.as_bytes().get(..index).unwrap_or(text.as_bytes());
        DocumentFault::Syntax(1 + before.iter().filter(|byte| **byte == b'\n').count())
    };
    let tree = Parser::new(text).recursion_limit(DEPTH_MAX).token_limit(TOKENS_MAX).parse();
    if let Some(error) = tree.errors().next() {
        let is_limit = tree.errors().any(apollo_parser::Error::is_limit);
        return Err(if is_limit { DocumentFault::TooLarge } else { line(error.index()) });
    }
    let reader = GraphqlTreeReader::default();
    let mut document = GraphqlDocument::default();
    for definition in tree.document().definitions() {
        match definition {
            Definition::OperationDefinition(written) => document.operations.push(reader.operation(&written)),
            Definition::FragmentDefinition(written) => {
                let name = written.fragment_name().and_then(|name| name.name());
                let fragment = reader.fragment(&written, written.type_condition(), written.selection_set());
                document.fragments.insert(reader.name(&written, name), fragment);
            }
            _ => {}
        }
    }
    match reader.fault.get() {
        Some(index) => Err(line(index)),
        None => Ok(document),
    }
}

/// Reads the parts of a tree.
#[derive(Default)]
struct GraphqlTreeReader {
    /// Where the first part that is missing should be, in bytes.
    fault: Cell<Option<usize>>,
}

impl GraphqlTreeReader {
    /// The part, or what stands for a missing one.
    fn part<T: Default>(&self, of: &impl CstNode, part: Option<T>) -> T {
        part.unwrap_or_else(|| {
            let index = usize::from(of.syntax().text_range().start());
            self.fault.set(Some(self.fault.get().unwrap_or(index)));
            T::default()
        })
    }

    fn name(&self, of: &impl CstNode, name: Option<cst::Name>) -> Box<str> {
        self.part(of, name.map(|name| text_of(&name)))
    }

    fn operation(&self, written: &cst::OperationDefinition) -> GraphqlOperation {
        let kind = match written.operation_type() {
            Some(kind) if kind.mutation_token().is_some() => OperationKind::Mutation,
            Some(kind) if kind.subscription_token().is_some() => OperationKind::Subscription,
            _ => OperationKind::Query,
        };
        let variables = written.variable_definitions();
        let variables = variables.iter().flat_map(cst::VariableDefinitions::variable_definitions);
        let defaults = variables.filter_map(|variable| {
            let default = variable.default_value()?;
            let name = self.name(&variable, variable.variable().and_then(|variable| variable.name()));
            Some((name, self.part(&default, default.value().map(|value| literal(&value)))))
        });
        GraphqlOperation {
            kind,
            name: written.name().map(|name| text_of(&name)),
            defaults: defaults.collect(),
            selections: self.part(written, self.selections(written.selection_set())),
        }
    }

    fn selections(&self, written: Option<cst::SelectionSet>) -> Option<Vec<GraphqlSelection>> {
        let selection = |selection| match selection {
            cst::Selection::Field(written) => GraphqlSelection::Field(self.field(&written)),
            cst::Selection::InlineFragment(written) => {
                let fragment = self.fragment(&written, written.type_condition(), written.selection_set());
                GraphqlSelection::Inline(fragment)
            }
            cst::Selection::FragmentSpread(written) => GraphqlSelection::Spread(
                self.name(&written, written.fragment_name().and_then(|name| name.name())),
            ),
        };
        Some(written?.selections().map(selection).collect())
    }

    fn field(&self, written: &cst::Field) -> GraphqlField {
        let arguments = written.arguments();
        let arguments = arguments.iter().flat_map(cst::Arguments::arguments).map(|argument| {
            let value = argument.value().map(|value| literal(&value));
            (self.name(&argument, argument.name()), self.part(&argument, value))
        });
        GraphqlField {
            name: self.name(written, written.name()),
            arguments: arguments.collect(),
            selections: self.selections(written.selection_set()).unwrap_or_default(),
        }
    }

    fn fragment(
        &self,
        of: &impl CstNode,
        on: Option<cst::TypeCondition>,
        written: Option<cst::SelectionSet>,
    ) -> Fragment {
        let on = on.and_then(|on| on.named_type()?.name()).map(|name| text_of(&name));
        Fragment { on, selections: self.part(of, self.selections(written)) }
    }
}

fn literal(value: &Value) -> Literal {
    let text = || value.syntax().text().to_string();
    match value {
        Value::Variable(variable) => {
            Literal::Variable(variable.name().map(|name| text_of(&name)).unwrap_or_default())
        }
        Value::IntValue(_) | Value::FloatValue(_) => Literal::Scalar(number(&text())),
        Value::StringValue(_) => Literal::Scalar(number(text().trim().trim_matches('"'))),
        Value::BooleanValue(_) | Value::EnumValue(_) => Literal::Scalar(None),
        Value::NullValue(_) | Value::ListValue(_) | Value::ObjectValue(_) => Literal::Other,
    }
}

/// The number in a text; none if there is another thing in it.
fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

fn text_of(name: &cst::Name) -> Box<str> {
    name.text().to_string().into()
}
