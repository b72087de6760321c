//! The labels of the request metrics: their values for one series, how they are chosen, and which of them are
//! left empty.

use super::extra_labels::ExtraLabelValues;

/// The labels of a series.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestLabels {
    /// The route's id or name.
    pub route: Box<str>,
    /// The path pattern that matched.
    pub matched_uri: Box<str>,
    /// The host the route asks for.
    pub matched_host: Box<str>,
    /// The service's id or name.
    pub service: Box<str>,
    /// The consumer.
    pub consumer: Box<str>,
    /// The node's address.
    pub node: Box<str>,
    /// The labels that each metric leaves empty.
    pub disabled: DisabledLabels,
    /// The labels that a user added, by metric.
    pub extra: ExtraLabelValues,
}

impl RequestLabels {
    /// The labels without those in `disabled`.
    #[must_use]
    pub fn without(&self, disabled: LabelSet) -> RequestLabels {
        let mut labels = self.clone();
        let fields: [(OptionalLabel, &mut Box<str>); 6] = [
            (OptionalLabel::Route, &mut labels.route),
            (OptionalLabel::MatchedUri, &mut labels.matched_uri),
            (OptionalLabel::MatchedHost, &mut labels.matched_host),
            (OptionalLabel::Service, &mut labels.service),
            (OptionalLabel::Consumer, &mut labels.consumer),
            (OptionalLabel::Node, &mut labels.node),
        ];
        for (label, value) in fields {
            if disabled.has(label) {
                *value = Box::default();
            }
        }
        labels
    }
}

/// Whether routes and services are labelled by id or by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LabelBy {
    /// By id.
    #[default]
    Id,
    /// By name, where they have one.
    Name,
}

/// How the labels of a request are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelPolicy {
    /// By id or by name.
    pub by: LabelBy,
    /// The labels that are left empty.
    pub disabled: DisabledLabels,
}

/// The labels that each metric leaves empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DisabledLabels {
    /// Of `apisix_http_status`.
    pub http_status: LabelSet,
    /// Of `apisix_http_latency`.
    pub http_latency: LabelSet,
    /// Of `apisix_bandwidth`.
    pub bandwidth: LabelSet,
}

impl DisabledLabels {
    /// The labels that all metrics leave empty: series need not be kept apart by them.
    #[must_use]
    pub fn everywhere(self) -> LabelSet {
        // Latency and bandwidth have no label of the route's pattern and host.
        let only_status = LabelSet::of(&[OptionalLabel::MatchedUri, OptionalLabel::MatchedHost]);
        let other = self.http_latency.0 & self.bandwidth.0;
        LabelSet(self.http_status.0 & (other | only_status.0))
    }
}

/// A set of labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelSet(u16);

impl LabelSet {
    /// These labels.
    #[must_use]
    pub fn of(labels: &[OptionalLabel]) -> LabelSet {
        LabelSet(labels.iter().fold(0, |set, label| set | 1 << *label as u16))
    }

    /// Whether `label` is one of them.
    #[must_use]
    pub fn has(self, label: OptionalLabel) -> bool {
        self.0 & (1 << label as u16) != 0
    }
}

/// A label that can be left empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalLabel {
    /// `route`
    Route,
    /// `matched_uri`
    MatchedUri,
    /// `matched_host`
    MatchedHost,
    /// `service`
    Service,
    /// `consumer`
    Consumer,
    /// `node`
    Node,
    /// `request_type`
    RequestType,
    /// `request_llm_model`
    RequestLlmModel,
    /// `llm_model`
    LlmModel,
    /// `response_source`
    ResponseSource,
}

impl OptionalLabel {
    /// The labels of `apisix_http_status`; those of the other metrics are among them.
    pub const ALL: [OptionalLabel; 10] = [
        OptionalLabel::Route,
        OptionalLabel::MatchedUri,
        OptionalLabel::MatchedHost,
        OptionalLabel::Service,
        OptionalLabel::Consumer,
        OptionalLabel::Node,
        OptionalLabel::RequestType,
        OptionalLabel::RequestLlmModel,
        OptionalLabel::LlmModel,
        OptionalLabel::ResponseSource,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OptionalLabel::Route => "route",
            OptionalLabel::MatchedUri => "matched_uri",
            OptionalLabel::MatchedHost => "matched_host",
            OptionalLabel::Service => "service",
            OptionalLabel::Consumer => "consumer",
            OptionalLabel::Node => "node",
            OptionalLabel::RequestType => "request_type",
            OptionalLabel::RequestLlmModel => "request_llm_model",
            OptionalLabel::LlmModel => "llm_model",
            OptionalLabel::ResponseSource => "response_source",
        }
    }

    /// The label with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<OptionalLabel> {
        OptionalLabel::ALL.into_iter().find(|label| label.name() == name)
    }
}

/// The side that made a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResponseSource {
    /// The gateway or a plugin, before an endpoint was asked.
    Gateway,
    /// The gateway, because an endpoint gave no response. APISIX names its proxy module here.
    Proxy,
    /// The endpoint.
    Upstream,
}

impl ResponseSource {
    /// The value of the label, as in APISIX.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ResponseSource::Gateway => "apisix",
            ResponseSource::Proxy => "nginx",
            ResponseSource::Upstream => "upstream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_their_names() {
        for label in OptionalLabel::ALL {
            assert_eq!(OptionalLabel::named(label.name()), Some(label));
        }
        assert_eq!(OptionalLabel::named("code"), None);
    }

    #[test]
    fn label_disabled_in_all_metrics_merges_series() {
        let node = LabelSet::of(&[OptionalLabel::Node]);
        let uri = LabelSet::of(&[OptionalLabel::MatchedUri]);
        let disabled = |http_status, http_latency, bandwidth| {
            DisabledLabels { http_status, http_latency, bandwidth }.everywhere()
        };
        let none = LabelSet::default();
        assert_eq!(disabled(node, node, node), node);
        assert_eq!(disabled(node, node, none), none);
        assert_eq!(disabled(uri, none, none), uri, "the other metrics have no such label");
        let labels = RequestLabels { route: "r".into(), node: "n".into(), ..RequestLabels::default() };
        assert_eq!((&*labels.without(node).node, &*labels.without(node).route), ("", "r"));
    }
}
