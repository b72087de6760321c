//! Fields of replies that plugins make, with variables in their values. It knows no plugin.

use exchange::Exchange;
use exchange::plugin::BufferedReply;
use message::Headers;
use serde_json::Value;

use super::fields::{self, FieldValue};

/// Names and values, each name once.
#[derive(Default)]
pub(crate) struct ReplyFields {
    fields: Vec<(Box<str>, FieldValue)>,
}

impl ReplyFields {
    /// Compiles the fields that stand in the attribute `place`. Of a name that is given again, also in other
    /// letters, the last value counts.
    ///
    /// # Errors
    /// The fault of a name or a value, with the place.
    pub(crate) fn compile<'v>(
        place: &str,
        written: impl IntoIterator<Item = (&'v str, &'v Value)>,
    ) -> Result<ReplyFields, String> {
        let mut fields: Vec<(Box<str>, FieldValue)> = Vec::new();
        for (name, value) in written {
            let name = fields::parse_field_name(name)?;
            let value = fields::parse_field_text(value)?;
            let value =
                FieldValue::compile_for(&name, &value).map_err(|reason| format!("{place}: {reason}"))?;
            fields.retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
            fields.push((name, value));
        }
        Ok(ReplyFields { fields })
    }

    /// `reply` with these fields in place of its own of the same names. A value that is not valid in a field
    /// leaves the field out, because it comes from a client.
    pub(crate) fn add_to(&self, exchange: &Exchange, mut reply: BufferedReply) -> BufferedReply {
        for (name, value) in &self.fields {
            let value = value.render(exchange, None);
            reply.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            if let (Ok(()), Ok(value)) = (Headers::new().append(name, &value), String::from_utf8(value)) {
                reply = reply.with_header(String::from(&**name), value);
            }
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::Scene;
    use serde_json::json;

    use super::*;

    #[test]
    fn last_value_of_a_name_counts() {
        let mut scene = Scene::new();
        let exchange = scene.exchange(b"GET /a?x=1&bad=%0D%0Ab&to=a%26b%23 HTTP/1.1\r\nHost: h\r\n\r\n");
        let check = |written: &[(&str, Value)], want: &[(&str, &str)]| {
            let fields = ReplyFields::compile("headers", written.iter().map(|(name, value)| (*name, value)));
            let reply = BufferedReply::status(200).with_header("Content-Type", "text/html");
            let reply = fields.unwrap().add_to(&exchange, reply);
            let got: Vec<(&str, &str)> =
                reply.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            assert_eq!(got, want, "{written:?}");
        };
        let html = ("Content-Type", "text/html");
        check(&[("A", json!("$arg_x")), ("B", json!(2))], &[html, ("A", "1"), ("B", "2")]);
        check(
            &[("A", json!("1")), ("b", json!("2")), ("a", json!("$uri"))],
            &[html, ("b", "2"), ("a", "/a")],
        );
        check(&[("content-type", json!("a/b"))], &[("content-type", "a/b")]);
        check(&[("A", json!("$arg_bad"))], &[html]);
        check(
            &[("location", json!("/n?to=$arg_to&x=${arg_none ?? 7}"))],
            &[html, ("location", "/n?to=a%26b%23&x=7")],
        );
        check(&[("Link", json!("/n?to=$arg_to"))], &[html, ("Link", "/n?to=a&b#")]);
    }
}
