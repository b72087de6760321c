//! The loads and results that the published texts report. Only facts, in our words; the numbers are the
//! authors'.

use crate::scenario::Tool;

/// One published table.
pub(super) struct Text {
    pub(super) title: &'static str,
    /// The load, in our words.
    pub(super) asked: &'static str,
    pub(super) ask: Ask,
    /// Requests per second of its origin alone.
    pub(super) origin: Option<f64>,
    pub(super) rows: &'static [PublishedRow],
    /// The conclusions or omissions of its authors.
    pub(super) remark: &'static str,
}

/// The load, as far as it decides which scenario repeats it.
pub(super) struct Ask {
    pub(super) tool: Tool,
    pub(super) connections: u32,
    pub(super) requests: Option<u64>,
    pub(super) keep_alive: bool,
    /// Whether the big page is requested instead of the small response.
    pub(super) big: bool,
    pub(super) workers: u16,
}

/// One contender of a published table.
pub(super) struct PublishedRow {
    /// The contender's name in the text.
    pub(super) name: &'static str,
    /// The contender's name in the laboratory.
    pub(super) ours: &'static str,
    /// Requests per second; several if the text reports several runs; none if there were no responses.
    pub(super) per_second: &'static [f64],
    /// Mean latency.
    pub(super) mean_ms: Option<f64>,
    pub(super) remark: &'static str,
}

const fn row(name: &'static str, ours: &'static str, per_second: &'static [f64]) -> PublishedRow {
    PublishedRow { name, ours, per_second, mean_ms: None, remark: "" }
}

const fn timed(
    name: &'static str,
    ours: &'static str,
    per_second: &'static [f64],
    mean_ms: f64,
) -> PublishedRow {
    PublishedRow { name, ours, per_second, mean_ms: Some(mean_ms), remark: "" }
}

const fn ab(connections: u32, requests: u64, keep_alive: bool, big: bool, workers: u16) -> Ask {
    Ask { tool: Tool::Ab, connections, requests: Some(requests), keep_alive, big, workers }
}

/// In the order of the texts.
pub(super) const TEXTS: &[Text] = &[
    Text {
        title: "Gateways compared, ab on one core",
        asked: "ab -n 10000 -c 200; the first run thrown away",
        ask: ab(200, 10_000, false, false, 1),
        origin: Some(6519.68),
        rows: &[row("nginx", "nginx", &[4888.24]), row("Zuul", "zuul1", &[950.57])],
        remark: "The text tells 26 % for nginx, where its own numbers make 25.0 %, and leaves out Zuul's.",
    },
    Text {
        title: "Gateways compared, ab on two cores",
        asked: "the same with two cores",
        ask: ab(200, 10_000, false, false, 2),
        origin: None,
        rows: &[row("nginx", "nginx", &[6187.14]), row("Zuul", "zuul1", &[2099.93])],
        remark: "On eight cores the text finds origin, nginx and Zuul close to each other and Spring Cloud's Zuul at \
                 873.14: something else than the gateways may have been the limit.",
    },
    Text {
        title: "Gateways compared, wrk",
        asked: "wrk -t12 -c100 -d300s on 21 bytes",
        ask: Ask {
            tool: Tool::Wrk,
            connections: 100,
            requests: None,
            keep_alive: true,
            big: false,
            workers: 1,
        },
        origin: Some(33_014.70),
        rows: &[
            timed("Zuul 1", "zuul1", &[13_175.21], 12.39),
            timed("Spring Cloud Gateway", "scg", &[21_685.14], 4.95),
            timed("EdgeService", "edgeservice", &[27_139.19], 3.80),
        ],
        remark: "The origin's own latency was 2.94 ms. Means hide their tails; percentiles are not told.",
    },
    Text {
        title: "Zuul against nginx, a page of 26,650 bytes",
        asked: "ab -n 50000 -c 200",
        ask: ab(200, 50_000, false, true, 1),
        origin: Some(2928.0),
        rows: &[
            row("nginx", "nginx", &[954.81, 953.0, 941.0]),
            PublishedRow {
                name: "Zuul, cold",
                ours: "zuul1",
                per_second: &[367.0],
                mean_ms: None,
                remark: "2 requests failed after 10 s without a connection",
            },
            row("Zuul, warm", "zuul1", &[998.0, 1010.0]),
        ],
        remark: "Warming up was not kept apart: the first run of Zuul is in the table, with its failures.",
    },
    Text {
        title: "A benchmark of API gateways, short connections",
        asked: "ab -n 100000 -c 100",
        ask: ab(100, 100_000, false, false, 1),
        origin: Some(6570.0),
        rows: &[
            row("Zuul 1.3.1", "zuul1", &[3734.09]),
            row("Spring Cloud Gateway 2.1.2", "scg", &[2097.93]),
            row("EdgeService 1.2.0", "edgeservice", &[2527.09]),
        ],
        remark: "The loss in percent is left out of its conclusion; it is worked out here.",
    },
    Text {
        title: "A benchmark of API gateways, kept connections",
        asked: "ab -k -n 100000 -c 100",
        ask: ab(100, 100_000, true, false, 1),
        origin: Some(8765.63),
        rows: &[
            row("Zuul 1.3.1", "zuul1", &[5296.09]),
            PublishedRow {
                name: "Spring Cloud Gateway 2.1.2",
                ours: "scg",
                per_second: &[],
                mean_ms: None,
                remark: "hangs: it does not answer HTTP/1.0",
            },
            row("EdgeService 1.2.0", "edgeservice", &[6454.86]),
        ],
        remark: "",
    },
];
