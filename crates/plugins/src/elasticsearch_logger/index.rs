//! The name of an index: text with variables, and formats of the time in braces.

use exchange::Exchange;

use crate::shared::logger::text::LogText;
use crate::shared::logger::times::{TimeFormat, now};

/// See the module.
pub(super) struct IndexName {
    parts: Vec<IndexNamePart>,
}

enum IndexNamePart {
    Text(LogText),
    Time(TimeFormat),
}

impl IndexName {
    /// Compiles the name that stands in the field `place`.
    ///
    /// # Errors
    /// A malformed variable.
    pub(super) fn compile(place: &str, written: &str) -> Result<IndexName, String> {
        let mut parts = Vec::new();
        let (mut begin, mut from) = (0, 0);
        while let Some(open) = written[from..].find('{').map(|length| from + length) {
            from = open + 1;
            // Behind a dollar sign the braces hold the name of a variable.
            if written[..open].ends_with('$') {
                continue;
            }
            let Some(close) = written[from..].find('}').map(|length| from + length) else { break };
            parts.push(IndexNamePart::Text(LogText::compile(place, &written[begin..open])?));
            parts.push(IndexNamePart::Time(TimeFormat::new(&written[from..close])));
            (begin, from) = (close + 1, close + 1);
        }
        parts.push(IndexNamePart::Text(LogText::compile(place, &written[begin..])?));
        Ok(IndexName { parts })
    }

    /// The name for an entry that is made now.
    pub(super) fn render(&self, exchange: &Exchange) -> String {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                IndexNamePart::Text(text) => name.push_str(&text.render(exchange)),
                IndexNamePart::Time(format) => format.render(now(exchange).0, &mut name),
            }
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use exchange::testing::Scene;

    use super::*;

    #[test]
    fn names_hold_times_and_variables() {
        let mut scene = Scene::new();
        let exchange = scene.exchange(b"GET /?n=1 HTTP/1.1\r\nHost: shop\r\n\r\n");
        let year = || stdx::clock::CivilTime::at(now(&exchange).0).year;
        let check = |written: &str, expected: &dyn Fn() -> String| {
            let index = IndexName::compile("field.index", written).unwrap();
            // The year may change between two looks at the clock.
            let tries = [(expected(), index.render(&exchange)), (expected(), index.render(&exchange))];
            assert!(tries.iter().any(|(expected, got)| expected == got), "{written}: {tries:?}");
        };
        check("services", &|| "services".to_owned());
        check("prefix{%Y}suffix", &|| format!("prefix{}suffix", year()));
        check("s-$host-{%Y}-${arg_n}", &|| format!("s-shop-{}-1", year()));
        check("s-{%Y}{%Y}", &|| format!("s-{0}{0}", year()));
        check("s-$arg_none-", &|| "s--".to_owned());
        check("prefix{*t}suffix", &|| "prefixsuffix".to_owned());
        check("a{b", &|| "a{b".to_owned());
        check("{}", &String::new);
        assert!(
            IndexName::compile("field.index", "a${").is_err_and(|reason| reason.starts_with("field.index: "))
        );
    }
}
