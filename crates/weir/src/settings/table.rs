//! The macro that makes a struct, a table of descriptions and a reader from the list of settings. Knows no
//! setting by name but the secrets.

/// One setting, as the help and the reference page describe it.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Name in the settings file, `snake_case`.
    pub(crate) name: &'static str,
    /// A shorter name, accepted wherever `name` is; the help shows this one.
    pub(crate) short_name: Option<&'static str>,
    /// The heading in the help and the reference page.
    pub(crate) section: &'static str,
    /// Its documentation, one or more lines.
    pub(crate) documentation: &'static str,
    /// The form of its value, for the help.
    pub(crate) value_name: &'static str,
    /// Its default, in the form that a user writes; empty for none.
    pub(crate) default: &'static str,
}

impl Setting {
    /// The name in the help: the short one if there is one.
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

    /// Whether `name`, in the spelling of the file, is this setting.
    #[must_use]
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.short_name == Some(name)
    }

    /// Whether a flag without a value means `true`.
    #[must_use]
    pub(crate) fn is_switch(&self) -> bool {
        self.value_name == "true|false"
    }

    /// Whether the settings file may have a map as its value.
    #[must_use]
    pub(crate) fn takes_map(&self) -> bool {
        self.value_name == "FORMAT"
    }

    /// Whether it is a secret: read only from the environment and never printed. Keys with roles are also
    /// read from a file of APISIX, which has no other place for them.
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
/// An entry is `name ("short"): Type = parser("VALUE NAME", "default")`; its doc comment is the
/// documentation. A parser is `fn(&Given) -> Result<Type, String>`.
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
            /// Parses every written value; adds all faults, and gives none if there is a fault.
            fn resolve(written: &WrittenSettings, faults: &mut Vec<SettingFault>) -> Option<Self> {
                $($( let $name = written.read(
                    stringify!($name),
                    $module::$parser $(::<$($bound),+>)?,
                    faults,
                ); )+)+
                Some(Self { $($( $name: $name?, )+)+ })
            }

            /// The settings with another value in `other`, by the names that users write.
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
