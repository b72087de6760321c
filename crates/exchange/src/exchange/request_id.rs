//! The id of a request.

use std::cell::OnceCell;
use std::fmt::Write;

use net::env::random_u64;

/// The id that a plugin has set, otherwise one of 32 hexadecimal digits, as nginx has it, made when it is
/// first asked for.
#[derive(Clone, Default)]
pub struct RequestId {
    set: Option<Box<str>>,
    made: OnceCell<Box<str>>,
}

impl RequestId {
    /// The id. It is the same for the whole request, unless a plugin sets another.
    pub fn get(&self) -> &str {
        self.set.as_deref().unwrap_or_else(|| self.made.get_or_init(make))
    }

    /// Whether a plugin has set it.
    pub fn is_set(&self) -> bool {
        self.set.is_some()
    }

    /// Sets the id.
    pub fn set(&mut self, id: Box<str>) {
        self.set = Some(id);
    }
}

fn make() -> Box<str> {
    let mut id = String::with_capacity(32);
    // Writing into a string does not fail.
    let _ = write!(id, "{:016x}{:016x}", random_u64(), random_u64());
    id.into()
}

#[cfg(test)]
mod tests {
    use router::vars::{Variable, VariableSource};

    use crate::Exchange;
    use crate::testing::Scene;

    fn id(exchange: &Exchange, name: &str) -> String {
        let value = exchange.variable(&Variable::parse(name).unwrap()).expect("it is never unset");
        String::from_utf8(value.text().into_owned()).unwrap()
    }

    #[test]
    fn request_without_an_id_gets_one_when_asked() {
        let mut scene = Scene::new();
        let mut exchange = scene.exchange(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let first = id(&exchange, "request_id");
        assert!(first.len() == 32 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
        assert_eq!(id(&exchange, "apisix_request_id"), first);
        exchange.reset();
        let second = id(&exchange, "request_id");
        assert_ne!(second, first);
        exchange.request_id.set("from a plugin".into());
        assert_eq!(id(&exchange, "request_id"), "from a plugin");
        exchange.reset();
        assert_eq!(id(&exchange, "request_id").len(), 32);
    }
}
