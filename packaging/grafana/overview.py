"""The panels of the dashboard "Weir overview": all instances at one glance."""

from panels import ANY_IS_BAD, ERRORS, GREEN, RED, YELLOW, lines, panel, stat, steps


def rows(selected):
    """The rows with their panels; `selected` are the matchers of the chosen instances."""
    status = f"apisix_http_status{{{selected}}}"
    failed = f'apisix_http_status{{{selected}, code=~"5.."}}'
    request = f'apisix_http_latency_bucket{{{selected}, type="request"}}'

    def quantile(share, bucket=request):
        return f"histogram_quantile({share}, sum by (le) (rate({bucket}[$__rate_interval])))"

    expiry = f"weir_ssl_certificate_expiry_seconds{{{selected}}}"
    now = [
        stat(
            "Instances",
            "Instances that Prometheus reads.",
            "none",
            f"count(weir_build_info{{{selected}}})",
            steps((None, RED), (1, GREEN)),
        ),
        stat(
            "Requests",
            "Responses a second, of routes with the plugin prometheus.",
            "reqps",
            f"sum(rate({status}[$__rate_interval]))",
        ),
        stat(
            "5xx",
            "Share of responses with a status from 500 on.",
            "percentunit",
            f"(sum(rate({failed}[$__rate_interval])) or vector(0)) / sum(rate({status}[$__rate_interval]))",
            ERRORS,
            decimals=2,
        ),
        stat(
            "p99",
            "99 of 100 requests take at most this long, seen by clients.",
            "ms",
            quantile(0.99),
            steps((None, GREEN), (500, YELLOW), (2000, RED)),
        ),
        stat(
            "Connections",
            "Open connections of clients.",
            "none",
            f'sum(apisix_nginx_http_current_connections{{{selected}, state="active"}})',
        ),
        stat(
            "Nodes down",
            "Nodes that health checks take for down.",
            "none",
            f"count(apisix_upstream_status{{{selected}}} == 0) or vector(0)",
            ANY_IS_BAD,
        ),
        stat(
            "Faulty objects",
            "Objects of the configuration that are not in force as written.",
            "none",
            f"sum(weir_config_faulty_objects{{{selected}}})",
            ANY_IS_BAD,
        ),
        stat(
            "First certificate ends",
            "Time until the first certificate ends.",
            "s",
            f"min({expiry}) - time()",
            steps((None, RED), (3 * 86400, YELLOW), (14 * 86400, GREEN)),
            noValue="none",
        ),
    ]
    traffic = [
        lines(
            "Requests by status",
            "Responses a second by the first digit of their status.",
            "reqps",
            (
                f'sum by (class) (label_replace(rate({status}[$__rate_interval]), "class", "${{1}}xx", "code", "(.).."))',
                "{{class}}",
            ),
            stacked=True,
            min=0,
        ),
        lines(
            "Latency",
            "Time from the first byte of a request to the last of its response.",
            "ms",
            *[(quantile(share), f"p{share * 100:g}") for share in (0.5, 0.9, 0.99)],
            min=0,
        ),
        lines(
            "Mean time by part",
            "Mean time at the upstream, and in the gateway itself.",
            "ms",
            *[
                (
                    f'sum(rate(apisix_http_latency_sum{{{selected}, type="{part}"}}[$__rate_interval])) / '
                    f'sum(rate(apisix_http_latency_count{{{selected}, type="{part}"}}[$__rate_interval]))',
                    legend,
                )
                for part, legend in (("upstream", "upstream"), ("apisix", "gateway"))
            ],
            min=0,
        ),
        lines(
            "Busiest routes",
            "The ten routes with most requests.",
            "reqps",
            (f"topk(10, sum by (route) (rate({status}[$__rate_interval])))", "{{route}}"),
            min=0,
        ),
        lines(
            "Routes with most 5xx",
            "Share of 5xx of the ten routes with the highest share.",
            "percentunit",
            (
                f"topk(10, sum by (route) (rate({failed}[$__rate_interval])) / sum by (route) (rate({status}[$__rate_interval])))",
                "{{route}}",
            ),
            min=0,
            thresholds=ERRORS,
        ),
        lines(
            "Bandwidth",
            "Bytes of requests (ingress) and responses (egress) a second.",
            "Bps",
            (f"sum by (type) (rate(apisix_bandwidth{{{selected}}}[$__rate_interval]))", "{{type}}"),
            min=0,
        ),
    ]
    failures = [
        lines(
            "Failures by cause",
            "Requests that failed or were refused; docs/guide/errors.md explains each cause.",
            "reqps",
            (f"sum by (cause) (rate(weir_failures_total{{{selected}}}[$__rate_interval])) > 0", "{{cause}}"),
            stacked=True,
            min=0,
            width=12,
        ),
        lines(
            "Failures by side",
            "The side that has to act: the client, the gateway or the origin.",
            "reqps",
            (f"sum by (blame) (rate(weir_failures_total{{{selected}}}[$__rate_interval]))", "{{blame}}"),
            stacked=True,
            min=0,
            width=12,
        ),
        lines(
            "Retries",
            "Further attempts by the reason for them, and those that the budget refused.",
            "reqps",
            (f"sum by (reason) (rate(weir_upstream_retries_total{{{selected}}}[$__rate_interval]))", "{{reason}}"),
            (
                f"sum(rate(weir_upstream_retries_refused_total{{{selected}}}[$__rate_interval]))",
                "refused by the budget",
            ),
            min=0,
            width=12,
        ),
        lines(
            "Refused connections",
            "Connections closed before a byte was read, or closed while silent to make room.",
            "cps",
            (
                f"sum by (limit) (rate(weir_connections_refused_total{{{selected}}}[$__rate_interval]))",
                "refused: {{limit}}",
            ),
            (
                f"sum by (limit) (rate(weir_connections_evicted_total{{{selected}}}[$__rate_interval]))",
                "closed: {{limit}}",
            ),
            min=0,
            width=12,
        ),
    ]
    up = [
        {
            "type": "value",
            "options": {
                "0": {"text": "down", "color": "red", "index": 0},
                "1": {"text": "up", "color": "green", "index": 1},
            },
        }
    ]
    upstreams = [
        panel(
            "state-timeline",
            "Health of nodes",
            "Verdict of the health checks on each node; the worst of all instances.",
            "none",
            [(f"min by (name, ip, port) (apisix_upstream_status{{{selected}}})", "{{name}} {{ip}}:{{port}}")],
            width=12,
            thresholds=steps((None, RED), (1, GREEN)),
            mappings=up,
        ),
        lines(
            "Health transitions",
            "Nodes that health checks took out or let in again, a minute.",
            "opm",
            (
                f"sum by (to, check) (rate(weir_health_transitions_total{{{selected}}}[$__rate_interval])) * 60",
                "{{to}} ({{check}})",
            ),
            min=0,
            width=6,
        ),
        lines(
            "Ejections and open circuits",
            "Nodes that are ejected as outliers, and upstreams with an open circuit breaker.",
            "none",
            (f"sum(weir_upstream_node_ejected{{{selected}}})", "ejected nodes"),
            (f'sum(weir_upstream_breaker_state{{{selected}, state="open"}})', "open circuits"),
            min=0,
            width=6,
        ),
    ]
    configuration = [
        lines(
            "Revision",
            "The revision that the instances run.",
            "none",
            (f"max by (instance) (weir_config_revision{{{selected}}})", "{{instance}}"),
        ),
        lines(
            "Faulty objects",
            "Objects that are not in force as written, by state, and faults of the source.",
            "none",
            (f"sum by (state) (weir_config_faulty_objects{{{selected}}})", "{{state}}"),
            (f"sum(weir_config_source_faults{{{selected}}})", "source"),
            min=0,
        ),
        panel(
            "table",
            "Certificates",
            "Time until the end of each certificate.",
            "s",
            [(f"sort(min by (ssl, sni) ({expiry}) - time())", "")],
            thresholds=steps((None, RED), (3 * 86400, YELLOW), (14 * 86400, GREEN)),
        ),
    ]
    return [
        ("Now", now),
        ("Traffic", traffic),
        ("Failures", failures),
        ("Upstreams", upstreams),
        ("Configuration", configuration),
    ]
