//! The weights of positions in a GraphQL schema, compiled: a position is a type, or a type and the chain of
//! fields that leads on from it.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::shared::attributes::attributes;

attributes! {
    /// The weight of one position.
    #[derive(Clone, Default)]
    pub(super) struct Decoration {
        /// The position: a type, which weighs every field that returns it; a type and a field; or a longer
        /// chain of fields, such as Query.products.nodes.
        field_path: String, { "minLength": 1 };
        /// The cost of the field itself.
        add_value: Option<f64>, { "minimum": 0 };
        /// Arguments of which the values are added to add_value.
        add_arguments: Option<Vec<String>>;
        /// Multiplies the cost of all that is selected below the field.
        mul_value: Option<f64>, { "minimum": 0 };
        /// Arguments of which the values are multiplied into mul_value.
        mul_arguments: Option<Vec<String>>;
    }
}

/// All weights of a service.
#[derive(Default)]
pub(super) struct Decorations {
    root: DecorationTrieNode,
    /// Every position is a type and a field, so that a look-up by these two finds its weight.
    is_flat: bool,
}

/// One step of the positions: a type or a field.
#[derive(Default)]
pub(super) struct DecorationTrieNode {
    next: HashMap<Box<str>, DecorationTrieNode>,
    weight: Option<Decoration>,
    depth: usize,
}

/// The positions that a walk stands at.
pub(super) type Positions<'d> = Vec<&'d DecorationTrieNode>;

impl Decorations {
    /// Compiles weights.
    ///
    /// # Errors
    /// A position that names nothing, or is written twice.
    pub(super) fn compile(written: &[Decoration]) -> Result<Decorations, String> {
        let mut all = Decorations { root: DecorationTrieNode::default(), is_flat: true };
        for decoration in written {
            let path = &decoration.field_path;
            let mut step = &mut all.root;
            let mut depth = 0;
            for token in path.split('.').filter(|token| !token.is_empty()) {
                step = step.next.entry(token.into()).or_default();
                depth += 1;
            }
            if depth == 0 {
                return Err(format!("field_path `{path}` names no type"));
            }
            if step.weight.is_some() {
                return Err(format!("field_path `{path}` is decorated more than once"));
            }
            all.is_flat &= depth == 2;
            step.depth = depth;
            step.weight = Some(decoration.clone());
        }
        Ok(all)
    }

    /// The positions where a walk begins at a value of this type.
    pub(super) fn begin(&self, type_name: Option<&str>) -> Positions<'_> {
        type_name.and_then(|name| self.root.next.get(name)).into_iter().collect()
    }

    /// The positions in a fragment on `type_name`: those of its parent, and the type itself.
    pub(super) fn in_fragment<'d>(&'d self, type_name: Option<&str>, above: &Positions<'d>) -> Positions<'d> {
        let mut positions = self.begin(type_name);
        // Where all positions are a type and a field, only that of the type itself counts.
        if !self.is_flat {
            positions.extend(above);
        }
        positions
    }

    /// The positions below the field `name` that returns `type_name`.
    pub(super) fn advance<'d>(
        &'d self,
        above: &Positions<'d>,
        name: &str,
        type_name: Option<&str>,
    ) -> Positions<'d> {
        let mut positions: Positions<'d> = above.iter().filter_map(|step| step.next.get(name)).collect();
        positions.extend(self.begin(type_name));
        positions
    }
}

/// The weight at these positions; a longer position outweighs a shorter one in each part that it has.
pub(super) fn weight_at<'d>(positions: &Positions<'d>) -> Option<Cow<'d, Decoration>> {
    let mut weighing: Vec<&'d DecorationTrieNode> =
        positions.iter().copied().filter(|step| step.weight.is_some()).collect();
    weighing.sort_by_key(|step| step.depth);
    let mut weights = weighing.iter().filter_map(|step| step.weight.as_ref());
    // Borrowed where one position fits, as for most fields, because a walk takes the weight of each
    // selection.
    let mut merged = Cow::Borrowed(weights.next()?);
    for weight in weights {
        let merged = merged.to_mut();
        merged.add_value = weight.add_value.or(merged.add_value);
        merged.mul_value = weight.mul_value.or(merged.mul_value);
        merged.add_arguments = weight.add_arguments.clone().or(merged.add_arguments.take());
        merged.mul_arguments = weight.mul_arguments.clone().or(merged.mul_arguments.take());
    }
    Some(merged)
}
