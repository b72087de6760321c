//! Labels of the request metrics that a user adds, each with a template of variables. They are rendered for
//! each request, so that a metric without any costs nothing.

use router::vars::Template;

use crate::exchange::Exchange;

/// The longest value of an added label, in bytes; the rest is cut, so that a client cannot make series large.
const VALUE_BYTES_MAX: usize = 128;

/// Label names and values, in the order written.
pub type ExtraValues = Box<[(Box<str>, Box<str>)]>;

/// The labels that are added to each metric.
#[derive(Debug, Default)]
pub struct ExtraLabels {
    /// To `apisix_http_status`.
    pub http_status: Vec<(Box<str>, Template)>,
    /// To `apisix_http_latency`.
    pub http_latency: Vec<(Box<str>, Template)>,
    /// To `apisix_bandwidth`.
    pub bandwidth: Vec<(Box<str>, Template)>,
}

/// The values of the labels that are added to each metric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtraLabelValues {
    /// Of `apisix_http_status`.
    pub http_status: ExtraValues,
    /// Of `apisix_http_latency`.
    pub http_latency: ExtraValues,
    /// Of `apisix_bandwidth`.
    pub bandwidth: ExtraValues,
}

impl ExtraLabelValues {
    /// Whether no label has a value.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        let all = [&self.http_status, &self.http_latency, &self.bandwidth];
        all.into_iter().flatten().all(|(_, value)| value.is_empty())
    }

    /// Takes the values away and leaves the names.
    pub fn blank(&mut self) {
        for (_, value) in
            [&mut self.http_status, &mut self.http_latency, &mut self.bandwidth].into_iter().flatten()
        {
            *value = Box::default();
        }
    }
}

impl ExtraLabels {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.http_status.is_empty() && self.http_latency.is_empty() && self.bandwidth.is_empty()
    }

    /// Writes the values of a request to `buffer`. It allocates nothing once `buffer` has grown.
    pub fn render(&self, exchange: &Exchange, buffer: &mut Vec<u8>) {
        buffer.clear();
        for (_, template) in self.http_status.iter().chain(&self.http_latency).chain(&self.bandwidth) {
            let begin = buffer.len();
            template.render(exchange, buffer);
            buffer.truncate(buffer.len().min(begin + VALUE_BYTES_MAX));
            buffer.push(0);
        }
    }

    /// The values of a request.
    #[must_use]
    pub fn values(&self, exchange: &Exchange) -> ExtraLabelValues {
        let of = |labels: &[(Box<str>, Template)]| -> ExtraValues {
            let render = |(name, template): &(Box<str>, Template)| {
                let mut value = Vec::new();
                template.render(exchange, &mut value);
                value.truncate(VALUE_BYTES_MAX);
                (name.clone(), String::from_utf8_lossy(&value).into())
            };
            labels.iter().map(render).collect()
        };
        ExtraLabelValues {
            http_status: of(&self.http_status),
            http_latency: of(&self.http_latency),
            bandwidth: of(&self.bandwidth),
        }
    }
}
