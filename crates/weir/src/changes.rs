//! Changes of objects as text for a terminal. Does not know where the changes come from.

use control::plan::{ConfigPlan, FieldChange, ObjectChange, PlanAction};
use control::source::file::dotted;
use serde_json::Value;

use crate::terminal::Paint;

/// Every object, each with a line for every changed place.
pub(crate) fn render_changes(objects: &[ObjectChange], paint: Paint) -> String {
    let mut text = String::new();
    for object in objects {
        let line = match object.action {
            PlanAction::Create => paint.good(&format!("+ {}", object.key)),
            PlanAction::Change => paint.noted(&format!("~ {}", object.key)),
            PlanAction::Delete => paint.bad(&format!("- {}", object.key)),
        };
        text.push_str(&format!("  {line}\n"));
        for field in &object.fields {
            text.push_str(&format!("      {}\n", place(object.action, field, paint)));
        }
    }
    text
}

/// `1 to create, 2 to change, 3 to delete`, without the parts that are zero.
pub(crate) fn counts(plan: &ConfigPlan, endings: [&str; 3]) -> String {
    let counted = [plan.create, plan.change, plan.delete].into_iter().zip(endings);
    let parts: Vec<String> =
        counted.filter(|(count, _)| *count > 0).map(|(count, ending)| format!("{count} {ending}")).collect();
    parts.join(", ")
}

/// One changed place. The fields of an object that is created or deleted have no sign of their own, because
/// the object has one.
fn place(action: PlanAction, field: &FieldChange, paint: Paint) -> String {
    let name = dotted(&field.pointer);
    let name = if name.is_empty() { "the whole text".to_owned() } else { name };
    match (&field.before, &field.after) {
        (Some(before), Some(after)) => {
            let [before, after] = both(before, after);
            format!("{name}: {} → {}", paint.bad(&before), paint.good(&after))
        }
        (None, Some(after)) if action == PlanAction::Change => {
            format!("{} {name}: {}", paint.good("+"), shortened(&after.to_string(), 0))
        }
        (Some(before), None) if action == PlanAction::Change => {
            format!("{} {name}: {}", paint.bad("-"), shortened(&before.to_string(), 0))
        }
        (_, Some(value)) => format!("{name}: {}", shortened(&value.to_string(), 0)),
        (Some(value), None) => paint.faint(&format!("{name}: {}", shortened(&value.to_string(), 0))),
        (None, None) => name,
    }
}

/// Two values. Long ones start shortly before the first character that differs.
fn both(before: &Value, after: &Value) -> [String; 2] {
    let [before, after] = [before, after].map(ToString::to_string);
    let same = before.chars().zip(after.chars()).take_while(|(one, other)| one == other).count();
    let from = same.saturating_sub(CONTEXT_CHARS);
    [shortened(&before, from), shortened(&after, from)]
}

/// A part of a long text, from the character `from` on, that fits a line or two.
fn shortened(text: &str, from: usize) -> String {
    let count = text.chars().count();
    if count <= VALUE_CHARS {
        return text.to_owned();
    }
    let from = from.min(count - VALUE_CHARS);
    let shown: String = text.chars().skip(from).take(VALUE_CHARS).collect();
    let [before, behind] = [from > 0, from + VALUE_CHARS < count].map(|cut| if cut { "…" } else { "" });
    format!("{before}{shown}{behind} ({count} characters)")
}

/// Longest value that is shown whole, in characters; a certificate has about 2,000.
const VALUE_CHARS: usize = 100;
/// Characters shown before the first difference of two long values.
const CONTEXT_CHARS: usize = 20;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(pointer: &str, before: Value, after: Value) -> FieldChange {
        let some = |value: Value| (!value.is_null()).then_some(value);
        FieldChange { pointer: pointer.to_owned(), before: some(before), after: some(after) }
    }

    #[test]
    fn changes_are_rendered_for_a_terminal() {
        let object = |action, fields| ObjectChange { key: "routes/1".to_owned(), action, fields };
        let check = |object: ObjectChange, expected: &str| {
            assert_eq!(render_changes(&[object], Paint::Plain), expected);
        };
        check(
            object(PlanAction::Create, vec![field("/uri", Value::Null, json!("/a"))]),
            "  + routes/1\n      uri: \"/a\"\n",
        );
        check(
            object(PlanAction::Delete, vec![field("/uri", json!("/a"), Value::Null)]),
            "  - routes/1\n      uri: \"/a\"\n",
        );
        check(
            object(
                PlanAction::Change,
                vec![
                    field("/methods/0", json!("GET"), json!("PUT")),
                    field("/plugins/cors", Value::Null, json!({})),
                    field("/plugins/limit-count/count", json!(5), Value::Null),
                ],
            ),
            "  ~ routes/1\n      methods[0]: \"GET\" → \"PUT\"\n      + plugins.cors: {}\n      \
             - plugins.limit-count.count: 5\n",
        );
        let painted = render_changes(&[object(PlanAction::Create, Vec::new())], Paint::Colour);
        assert_eq!(painted, "  \u{1b}[32m+ routes/1\u{1b}[0m\n");
    }

    #[test]
    fn long_values_are_shown_where_they_differ() {
        let same = "x".repeat(200);
        let text = render_changes(
            &[ObjectChange {
                key: "protos/1".to_owned(),
                action: PlanAction::Change,
                fields: vec![field(
                    "/content",
                    json!(format!("{same}old{same}")),
                    json!(format!("{same}new{same}")),
                )],
            }],
            Paint::Plain,
        );
        assert!(text.contains("…xxx") && text.contains("old") && text.contains("new"), "{text}");
        assert!(text.chars().count() < 400, "{text}");
    }

    #[test]
    fn counts_leave_out_zeros() {
        let plan = ConfigPlan { change: 2, delete: 1, ..ConfigPlan::default() };
        let endings = ["to create", "to change", "to delete"];
        assert_eq!(counts(&plan, endings), "2 to change, 1 to delete");
        assert_eq!(counts(&ConfigPlan::default(), endings), "");
    }
}
