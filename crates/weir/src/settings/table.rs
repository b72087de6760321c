//! How the list of settings becomes a struct, a table of descriptions and a reader. Knows no setting by name but
//! the secrets.

/// One setting, as help and the reference page describe it.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Name in the settings file, `snake_case`.
    pub(crate) name: &'static str,
    /// A shorter name, accepted wherever `name` is, and the one that help shows.
    pub(crate) short_name: Option<&'static str>,
    /// Heading under which help and reference list it.
    pub(crate) section: &'static str,
    /// What it means, one or more lines.
    pub(crate) documentation: &'static str,
    /// What its value looks like.
    pub(crate) value_name: &'static str,
    /// Its default, as a user would write it; empty is none.
    pub(crate) default: &'static str,
}

impl Setting {
    /// The name that is shown: the short one where there is one.
    #[must_use]
    pub(crate) fn shown_name(&self) -> &'static str {
        self.short_name.unwrap_or(self.name)
    }

    /// The flag without its dashes, kebab case.
    #[must_use]
    pub(crate) fn flag(&self) -> String {
        self.shown_name().replace('_', "-")
    }

    /// The environment variable.
    #[must_use]
    pub(crate) fn variable(&self) -> String {
        variable_of(self.shown_name())
    }

    /// Whether `name` (file spelling) is this setting.
    #[must_use]
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.short_name == Some(name)
    }

    /// Whether a flag without a value means `true`.
    #[must_use]
    pub(crate) fn is_switch(&self) -> bool {
        self.value_name == "true|false"
    }

    /// Whether the settings file may give a map.
    #[must_use]
    pub(crate) fn takes_map(&self) -> bool {
        self.value_name == "FORMAT"
    }

    /// Whether it is a secret: taken from the environment only (keys with roles from a file of APISIX too, which has no
    /// other place for them), never printed.
    #[must_use]
    pub(crate) fn is_secret(&self) -> bool {
        ["acme_external_accounts", "admin_key", "admin_keys", "encryption_keyring", "etcd_password"]
            .contains(&self.name)
    }
}

/// `WEIR_` and the name in upper case.
pub(super) fn variable_of(name: &str) -> String {
    format!("WEIR_{}", name.to_ascii_uppercase())
}

/// Defines `Settings`, `SETTINGS` and `Settings::resolve` from one list.
///
/// An entry is `name ("short"): Type = parser("VALUE NAME", "default")`; its doc comment is the documentation. A
/// parser is `fn(&Given) -> Result<Type, String>`.
macro_rules! settings {
    ($(section $section:literal { $(
        $(#[doc = $line:literal])+
        $name:ident $(($short:literal))? : $type:ty =
            $module:ident :: $parser:ident $(::<$($bound:tt),+>)? ($value_name:literal, $default:expr),
    )+ })+) => {
        /// The settings in force, each under its own name.
        #[derive(Clone, Debug)]
        pub(crate) struct Settings { $($( $(#[doc = $line])+ pub(crate) $name: $type, )+)+ }

        /// Every setting, in the order help and reference show them.
        pub(crate) const SETTINGS: &[Setting] = &[ $($( Setting {
            name: stringify!($name),
            short_name: settings!(@short $($short)?),
            section: $section,
            documentation: concat!($($line, "\n"),+),
            value_name: $value_name,
            default: $default,
        }, )+)+ ];

        impl Settings {
            /// Parses every written value; adds the faults and gives nothing if there is one.
            fn resolve(written: &Written, faults: &mut Vec<Fault>) -> Option<Self> {
                $($( let $name = written.read(
                    stringify!($name),
                    $module::$parser $(::<$($bound),+>)?,
                    faults,
                ); )+)+
                Some(Self { $($( $name: $name?, )+)+ })
            }

            /// The names of the settings that have another value in `other`, as users write them.
            pub(crate) fn differing(&self, other: &Self) -> Vec<&'static str> {
                let equal = [ $($( (stringify!($name), self.$name == other.$name), )+)+ ];
                let differing = equal.into_iter().filter(|(_, equal)| !equal);
                differing.map(|(name, _)| shown_name(name)).collect()
            }

            /// Each setting with its value in force, for tests; a secret shows only that it is set.
            #[cfg(test)]
            pub(crate) fn in_force(&self) -> Vec<(&'static str, String)> {
                vec![ $($( (stringify!($name), format!("{:?}", self.$name)), )+)+ ]
            }
        }
    };
    (@short $short:literal) => { Some($short) };
    (@short) => { None };
}
pub(super) use settings;
