//! The order in which requests are shed.

/// How soon a route's requests are refused when not all can be served: the last ones first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before all others: what can wait or be done again.
    Sheddable,
    /// Routes without the label.
    #[default]
    Default,
    /// Last: what must work as long as anything does.
    Critical,
}

impl Priority {
    /// The priority in a route's label; the check of the configuration has refused other words.
    pub fn from_label(value: Option<&str>) -> Priority {
        match value {
            Some("critical") => Priority::Critical,
            Some("sheddable") => Priority::Sheddable,
            _ => Priority::Default,
        }
    }

    /// The word in the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Sheddable => "sheddable",
            Priority::Default => "default",
            Priority::Critical => "critical",
        }
    }
}
