//! The form that error codes have in both protocols; it does not know the codes.

/// Defines `ErrorCode`, a number with the names that the RFCs give to some values. Each row is the name of a
/// constant, its value, and the name on the wire of logs.
#[macro_export]
macro_rules! error_codes {
    ($(#[$about:meta])* $number:ty; $($(#[$doc:meta])* $name:ident = $value:literal $text:literal,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct ErrorCode(pub $number);

        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name in its RFC; empty for a code that none of them defines.
            pub fn name(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "",
                }
            }
        }

        impl ::std::fmt::Debug for ErrorCode {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, formatter)
            }
        }

        impl ::std::fmt::Display for ErrorCode {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self.name() {
                    "" => write!(formatter, "{:#x}", self.0),
                    name => formatter.write_str(name),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #![allow(unreachable_pub, reason = "other crates export what the macro defines")]

    error_codes! {
        /// Codes of a test.
        u8;
        /// The only one.
        KNOWN = 7 "KNOWN_CODE",
    }

    #[test]
    fn codes_are_shown_by_name_or_number() {
        assert_eq!(ErrorCode::KNOWN.to_string(), "KNOWN_CODE");
        assert_eq!(format!("{:?} {}", ErrorCode(255), ErrorCode(255).name()), "0xff ");
    }
}
