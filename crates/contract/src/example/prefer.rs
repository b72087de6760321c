//! The wishes of a request to a mock, and the faults of such wishes.

/// The wishes of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MockChoice<'r> {
    /// The status of the response; by default the lowest 2xx of the operation.
    pub code: Option<u16>,
    /// The name of an example of the response.
    pub example: Option<&'r str>,
    /// Whether values are random and examples are ignored.
    pub dynamic: bool,
    /// The value of the field `Accept`.
    pub accept: Option<&'r str>,
}

/// The reason why a mock has no response as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MockFault {
    /// `Prefer` has a value that cannot be read.
    Preference(String),
    /// The operation does not define this status, and has no default response.
    UnknownCode(u16),
    /// The response has no example of this name.
    UnknownExample {
        /// The name.
        name: String,
        /// The media type that was negotiated.
        media_type: String,
    },
    /// The response has none of the accepted media types.
    NotAcceptable {
        /// The media types that the response has.
        available: Vec<String>,
    },
    /// The operation defines no response.
    NoResponse,
    /// Random values were asked for, and the response of this media type has no schema.
    NoSchema(String),
    /// No value of the schema was found within the limits.
    NoExample(String),
}

impl MockFault {
    /// The status of the reply.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            MockFault::Preference(_) => 422,
            MockFault::UnknownCode(_) | MockFault::UnknownExample { .. } => 404,
            MockFault::NotAcceptable { .. } => 406,
            MockFault::NoResponse | MockFault::NoSchema(_) | MockFault::NoExample(_) => 500,
        }
    }

    /// The `title` of the reply as a problem of RFC 9457, in the words of Prism.
    #[must_use]
    pub fn title(&self) -> &'static str {
        match self {
            MockFault::Preference(_) => "Invalid request",
            MockFault::UnknownCode(_) | MockFault::UnknownExample { .. } => {
                "The server cannot find the requested content"
            }
            MockFault::NotAcceptable { .. } => {
                "The server cannot produce a representation for your accept header"
            }
            MockFault::NoResponse => "No response defined for the selected operation",
            MockFault::NoSchema(_) => "No schema defined for the selected response",
            MockFault::NoExample(_) => "Schema too complex",
        }
    }
}

impl std::fmt::Display for MockFault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MockFault::Preference(reason) => formatter.write_str(reason),
            MockFault::UnknownCode(code) => {
                write!(formatter, "the contract defines no response with the status {code}")
            }
            MockFault::UnknownExample { name, media_type } => {
                write!(formatter, "the response of type {media_type} has no example {name:?}")
            }
            MockFault::NotAcceptable { available } => {
                write!(formatter, "the response has the media types {}", available.join(", "))
            }
            MockFault::NoResponse => formatter.write_str("the operation defines no response"),
            MockFault::NoSchema(media_type) => {
                write!(formatter, "the response of type {media_type} has no schema for random values")
            }
            MockFault::NoExample(part) => write!(
                formatter,
                "no value was found for {part}: its constraints contradict each other or it is too large; \
                 write an example into the contract"
            ),
        }
    }
}

impl std::error::Error for MockFault {}

impl<'r> MockChoice<'r> {
    /// Reads the field `Prefer` (RFC 7240): `code=404, example=cat, dynamic=true`. Other preferences are
    /// ignored, and of two with the same name the first counts.
    ///
    /// # Errors
    /// `code` has no three digits, or `dynamic` is neither `true` nor `false`.
    pub fn from_prefer(prefer: &'r str) -> Result<MockChoice<'r>, MockFault> {
        let mut choice = MockChoice::default();
        let mut dynamic = None;
        for preference in split_unquoted(prefer) {
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            let value = value.trim().trim_matches('"');
            match &*name.trim().to_ascii_lowercase() {
                "code" if choice.code.is_none() => {
                    let is_code = value.len() == 3 && value.bytes().all(|digit| digit.is_ascii_digit());
                    let code = value.parse().ok().filter(|code| is_code && (100..=999).contains(code));
                    choice.code = Some(code.ok_or_else(|| {
                        let reason = format!("`code` in `Prefer` is {value:?}; write three digits");
                        MockFault::Preference(reason)
                    })?);
                }
                "example" if choice.example.is_none() && !value.is_empty() => choice.example = Some(value),
                "dynamic" if dynamic.is_none() => {
                    dynamic = Some(match value {
                        "true" | "" => true,
                        "false" => false,
                        _ => {
                            let reason =
                                format!("`dynamic` in `Prefer` is {value:?}; write `true` or `false`");
                            return Err(MockFault::Preference(reason));
                        }
                    });
                }
                _ => {}
            }
        }
        choice.dynamic = dynamic.unwrap_or(false);
        Ok(choice)
    }
}

/// The parts between commas, and between semicolons, outside of quotation marks.
fn split_unquoted(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    text.split(move |character| {
        is_quoted ^= character == '"';
        !is_quoted && matches!(character, ',' | ';')
    })
}
