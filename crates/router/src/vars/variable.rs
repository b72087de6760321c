//! Variables by their names.
//!
//! It does not know their values.

use super::{BuiltinVariable, JsonPath, JsonPathError, ProxyTlv};

/// A variable, by the source of its value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Variable {
    /// `arg_x`: the first query argument of this name.
    Arg(Box<str>),
    /// A variable known by its whole name.
    Builtin(BuiltinVariable),
    /// `cookie_x`: the cookie of this name.
    Cookie(Box<str>),
    /// `graphql_name`, `graphql_operation`, `graphql_root_fields`.
    Graphql(GraphqlVariable),
    /// `http_x`: the request header of this name, in lower case with `-` for `_`.
    Header(Box<str>),
    /// Any other name: unset unless a plugin sets it.
    Named(Box<str>),
    /// `post_arg_x`: the first argument of this name in an urlencoded form body.
    PostArg(Box<str>),
    /// `post_arg.a.b[*]`: a path into a JSON or multipart body.
    PostArgPath(JsonPath),
    /// `proxy_protocol_tlv_x`: a TLV of the PROXY protocol header that the connection began with.
    ProxyProtocolTlv(ProxyTlv),
    /// `sent_http_x`: the header of the response to the client, in lower case with `-` for `_`.
    ResponseHeader(Box<str>),
    /// `upstream_http_x`: the header of the node's response, likewise.
    UpstreamHeader(Box<str>),
    /// `uri_param_x`: a path parameter.
    UriParam(Box<str>),
}

/// A part of a GraphQL request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum GraphqlVariable {
    /// The operation's name.
    Name,
    /// `query`, `mutation` or `subscription`.
    Operation,
    /// The top level fields, a list.
    RootFields,
}

/// A name that cannot be a variable.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum VariableError {
    /// The name is empty.
    #[error("a variable needs a name")]
    Empty,
    /// The part after `post_arg.`.
    #[error("`{name}`: {error}")]
    JsonPath {
        /// The name as written.
        name: String,
        /// The fault of the path.
        error: JsonPathError,
    },
}

impl Variable {
    /// The variable of this `name` (without `$`).
    ///
    /// # Errors
    /// The name is empty or has a bad JSON path. An unknown name is no error: it is a variable that is never
    /// set.
    pub fn parse(name: &str) -> Result<Self, VariableError> {
        if name.is_empty() {
            return Err(VariableError::Empty);
        }
        if let Some(path) = name.strip_prefix("post_arg.") {
            let path = JsonPath::parse(path)
                .map_err(|error| VariableError::JsonPath { name: name.to_owned(), error })?;
            return Ok(Self::PostArgPath(path));
        }
        for (prefix, make) in PREFIXES {
            if let Some(rest) = name.strip_prefix(prefix).filter(|rest| !rest.is_empty()) {
                return Ok(make(rest));
            }
        }
        if let Some(tlv) = name.strip_prefix("proxy_protocol_tlv_").and_then(ProxyTlv::parse) {
            return Ok(Self::ProxyProtocolTlv(tlv));
        }
        Ok(match name {
            "graphql_name" => Self::Graphql(GraphqlVariable::Name),
            "graphql_operation" => Self::Graphql(GraphqlVariable::Operation),
            "graphql_root_fields" => Self::Graphql(GraphqlVariable::RootFields),
            _ => BuiltinVariable::from_name(name).map_or_else(|| Self::Named(name.into()), Self::Builtin),
        })
    }

    /// Whether its value may be in the request's body.
    #[must_use]
    pub fn uses_request_body(&self) -> bool {
        matches!(
            self,
            Self::PostArg(_)
                | Self::PostArgPath(_)
                | Self::Graphql(_)
                | Self::Builtin(BuiltinVariable::RequestBody)
        )
    }
}

impl From<BuiltinVariable> for Variable {
    fn from(variable: BuiltinVariable) -> Self {
        Self::Builtin(variable)
    }
}

/// nginx writes headers in variables with `_` for `-` and takes any case.
fn header(name: &str) -> Box<str> {
    name.to_ascii_lowercase().replace('_', "-").into_boxed_str()
}

/// A family of variables: the prefix of their names, and the constructor.
type Family = (&'static str, fn(&str) -> Variable);
const PREFIXES: [Family; 7] = [
    ("arg_", |rest| Variable::Arg(rest.into())),
    ("cookie_", |rest| Variable::Cookie(rest.into())),
    ("http_", |rest| Variable::Header(header(rest))),
    ("post_arg_", |rest| Variable::PostArg(rest.into())),
    ("sent_http_", |rest| Variable::ResponseHeader(header(rest))),
    ("upstream_http_", |rest| Variable::UpstreamHeader(header(rest))),
    ("uri_param_", |rest| Variable::UriParam(rest.into())),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, variable: Variable) {
        assert_eq!(Variable::parse(name), Ok(variable), "{name}");
    }

    #[test]
    fn names() {
        check("arg_a_b", Variable::Arg("a_b".into()));
        check("http_X_Forwarded_For", Variable::Header("x-forwarded-for".into()));
        check("http_x-y", Variable::Header("x-y".into()));
        check("http_host", Variable::Header("host".into()));
        check("cookie_s", Variable::Cookie("s".into()));
        check("post_arg_a", Variable::PostArg("a".into()));
        check("post_arg.a[*].b", Variable::PostArgPath(JsonPath::parse("a[*].b").unwrap()));
        check("uri_param_id", Variable::UriParam("id".into()));
        check("sent_http_etag", Variable::ResponseHeader("etag".into()));
        check("upstream_http_etag", Variable::UpstreamHeader("etag".into()));
        check("graphql_root_fields", Variable::Graphql(GraphqlVariable::RootFields));
        check("proxy_protocol_tlv_authority", Variable::ProxyProtocolTlv(ProxyTlv::Type(2)));
        check("proxy_protocol_tlv_ssl_0x22", Variable::ProxyProtocolTlv(ProxyTlv::Ssl(0x22)));
        check("proxy_protocol_tlv_mine", Variable::Named("proxy_protocol_tlv_mine".into()));
        check("uri", Variable::Builtin(BuiltinVariable::Uri));
        check("http_", Variable::Named("http_".into()));
        check("my_own", Variable::Named("my_own".into()));
    }

    #[test]
    fn refused() {
        assert_eq!(Variable::parse(""), Err(VariableError::Empty));
        assert!(
            Variable::parse("post_arg.a[").unwrap_err().to_string().starts_with("`post_arg.a[`: at byte 1")
        );
    }

    #[test]
    fn bodies() {
        for (name, uses) in
            [("post_arg_a", true), ("post_arg.a", true), ("graphql_name", true), ("arg_a", false)]
        {
            assert_eq!(Variable::parse(name).unwrap().uses_request_body(), uses, "{name}");
        }
    }
}
