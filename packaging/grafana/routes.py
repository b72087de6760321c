"""The panels of the dashboard "Weir routes": one route, service, consumer or upstream in detail."""

from panels import ANY_IS_BAD, ERRORS, lines, panel


def rows(selected):
    """The rows with their panels; `selected` are the matchers of the chosen instances."""
    chosen = f'{selected}, route=~"$route", service=~"$service", consumer=~"$consumer"'
    status = f"apisix_http_status{{{chosen}}}"
    failed = f'apisix_http_status{{{chosen}, code=~"5.."}}'
    upstream = f'{selected}, upstream=~"$upstream"'

    def quantile(share, by, kind="request"):
        labels = f"le, {by}" if by else "le"
        bucket = f'apisix_http_latency_bucket{{{chosen}, type="{kind}"}}'
        return f"histogram_quantile({share}, sum by ({labels}) (rate({bucket}[$__rate_interval])))"

    def by(label, metric=status):
        return f"sum by ({label}) (rate({metric}[$__rate_interval]))"

    table = panel(
        "table",
        "Routes",
        "Requests a second, share of 5xx, 99th percentile in milliseconds and bytes a second of each route.",
        "short",
        [
            (by("route"), ""),
            (f"{by('route', failed)} / {by('route')}", ""),
            (quantile(0.99, "route"), ""),
            (by("route", f'apisix_bandwidth{{{chosen}, type="egress"}}'), ""),
        ],
        width=24,
        height=9,
        decimals=3,
        transformations=[
            {"id": "merge", "options": {}},
            {
                "id": "organize",
                "options": {
                    "excludeByName": {"Time": True},
                    "renameByName": {
                        "Value #A": "requests/s",
                        "Value #B": "share of 5xx",
                        "Value #C": "p99 (ms)",
                        "Value #D": "bytes/s",
                    },
                },
            },
        ],
    )
    route_rows = [
        table,
        lines("Requests by route", "Responses a second.", "reqps", (by("route"), "{{route}}"), min=0),
        lines("Requests by status", "Responses a second.", "reqps", (by("code"), "{{code}}"), stacked=True, min=0),
        lines(
            "Share of 5xx by route",
            "Share of responses with a status from 500 on.",
            "percentunit",
            (f"{by('route', failed)} / {by('route')}", "{{route}}"),
            min=0,
            thresholds=ERRORS,
        ),
        lines(
            "Median by route",
            "Half of the requests take at most this long.",
            "ms",
            (quantile(0.5, "route"), "{{route}}"),
            min=0,
        ),
        lines(
            "p95 by route",
            "95 of 100 requests take at most this long.",
            "ms",
            (quantile(0.95, "route"), "{{route}}"),
            min=0,
        ),
        lines(
            "p99 by route",
            "99 of 100 requests take at most this long.",
            "ms",
            (quantile(0.99, "route"), "{{route}}"),
            min=0,
        ),
        lines(
            "Time at upstream and in gateway",
            "95th percentile of both parts of the time.",
            "ms",
            (quantile(0.95, "", "upstream"), "upstream"),
            (quantile(0.95, "", "apisix"), "gateway"),
            min=0,
        ),
        lines(
            "Response source",
            "Responses a second by their maker: the upstream, or the gateway (nginx and apisix in the words of APISIX).",
            "reqps",
            (by("response_source"), "{{response_source}}"),
            stacked=True,
            min=0,
        ),
        lines(
            "Bandwidth by route",
            "Bytes of responses a second.",
            "Bps",
            (by("route", f'apisix_bandwidth{{{chosen}, type="egress"}}'), "{{route}}"),
            min=0,
        ),
    ]
    owners = [
        lines(
            "Requests by service",
            "Responses a second of routes with a service.",
            "reqps",
            (by("service", f'apisix_http_status{{{chosen}, service!=""}}'), "{{service}}"),
            min=0,
        ),
        lines(
            "Requests by consumer",
            "Responses a second of authenticated clients.",
            "reqps",
            (by("consumer", f'apisix_http_status{{{chosen}, consumer!=""}}'), "{{consumer}}"),
            min=0,
        ),
        lines(
            "Refused by consumer",
            "Responses a second with a status of 400 to 499, 429 of rate limits among them.",
            "reqps",
            (
                by("consumer, code", f'apisix_http_status{{{chosen}, consumer!="", code=~"4.."}}'),
                "{{consumer}} {{code}}",
            ),
            min=0,
        ),
    ]
    nodes = [
        lines(
            "Requests by node",
            "Responses a second by the address of the node.",
            "reqps",
            (by("node", f'apisix_http_status{{{chosen}, node!=""}}'), "{{node}}"),
            min=0,
        ),
        lines(
            "5xx by node",
            "Responses a second with a status from 500 on.",
            "reqps",
            (by("node", f'apisix_http_status{{{chosen}, node!="", code=~"5.."}}'), "{{node}}"),
            min=0,
        ),
        lines(
            "p95 by node",
            "95 of 100 requests take at most this long.",
            "ms",
            (quantile(0.95, "node", "upstream"), "{{node}}"),
            min=0,
        ),
        lines(
            "Health of nodes",
            "1 while health checks take the node for up; the worst of all instances.",
            "none",
            (f"min by (name, ip, port) (apisix_upstream_status{{{selected}}})", "{{name}} {{ip}}:{{port}}"),
            min=0,
            max=1,
        ),
        lines(
            "Health checks",
            "Active checks a second by result.",
            "ops",
            (f"sum by (result) (rate(weir_health_checks_total{{{selected}}}[$__rate_interval]))", "{{result}}"),
            min=0,
        ),
        lines(
            "TLS handshakes with nodes",
            "Handshakes a second by result.",
            "ops",
            (
                f"sum by (result, reason) (rate(weir_upstream_tls_handshakes_total{{{selected}}}[$__rate_interval]))",
                "{{result}} {{reason}}",
            ),
            min=0,
        ),
    ]
    protection = [
        lines(
            "Requests in flight",
            "Requests at upstreams with ejection, breaker or limits.",
            "none",
            (f"sum by (upstream) (weir_upstream_requests{{{upstream}}})", "{{upstream}}"),
            min=0,
        ),
        lines(
            "Queue",
            "Requests that wait for a place at the upstream.",
            "none",
            (f"sum by (upstream) (weir_upstream_queue_length{{{upstream}}})", "{{upstream}}"),
            min=0,
        ),
        lines(
            "Refused by limits",
            "Requests a second that breaker, limits or queue refused.",
            "reqps",
            (
                f"sum by (upstream, reason) (rate(weir_upstream_refused_total{{{upstream}}}[$__rate_interval]))",
                "{{upstream}} {{reason}}",
            ),
            min=0,
        ),
        lines(
            "Circuit breakers",
            "1 while the circuit is open or half open.",
            "none",
            (
                f'max by (upstream, state) (weir_upstream_breaker_state{{{upstream}, state!="closed"}})',
                "{{upstream}} {{state}}",
            ),
            min=0,
            max=1,
            thresholds=ANY_IS_BAD,
        ),
        lines(
            "Ejections",
            "Nodes ejected as outliers, and ejections that max_ejected_percent prevented, a minute.",
            "opm",
            (
                f"sum by (upstream) (rate(weir_upstream_ejections_total{{{upstream}}}[$__rate_interval])) * 60",
                "{{upstream}}",
            ),
            (
                f"sum by (upstream) (rate(weir_upstream_ejections_prevented_total{{{upstream}}}[$__rate_interval])) * 60",
                "{{upstream}} prevented",
            ),
            min=0,
        ),
        lines(
            "Hedged requests",
            "Second attempts beside a slow one a second, and those that answered first.",
            "reqps",
            (f"sum(rate(weir_upstream_hedges_total{{{selected}}}[$__rate_interval]))", "made"),
            (f"sum(rate(weir_upstream_hedges_won_total{{{selected}}}[$__rate_interval]))", "won"),
            min=0,
        ),
    ]
    return [
        ("Routes", route_rows),
        ("Services and consumers", owners),
        ("Nodes", nodes),
        ("Protection of upstreams", protection),
    ]
