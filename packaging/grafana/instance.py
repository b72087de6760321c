"""The panels of the dashboard "Weir instance": process, workers, connections, logs and caches."""

import instance_sources
from panels import ANY_IS_BAD, GREEN, OF_LIMIT, RED, YELLOW, lines, stat, steps


def rows(selected):
    """The rows with their panels; `selected` are the matchers of the chosen instance."""

    def rate(metric, by="", more=""):
        summed = f"sum by ({by})" if by else "sum"
        return f"{summed} (rate({metric}{{{selected}{more}}}[$__rate_interval]))"

    def value(metric, more=""):
        return f"{metric}{{{selected}{more}}}"

    # Other programs have process metrics as well.
    own = f" and on (job, instance) weir_build_info{{{selected}}}"
    resident = value("process_resident_memory_bytes")
    active = value("apisix_nginx_http_current_connections", ', state="active"')
    now = [
        stat(
            "Version",
            "The version of the program.",
            "none",
            f"max by (version) ({value('weir_build_info')})",
            legend="{{version}}",
            text_mode="name",
        ),
        stat(
            "Uptime",
            "Time since the start of the process.",
            "s",
            f"time() - {value('process_start_time_seconds')}{own}",
        ),
        stat("Workers", "Worker threads.", "none", f"count({value('weir_config_revision')})"),
        stat(
            "CPU",
            "Processor cores in use.",
            "none",
            f"rate({value('process_cpu_seconds_total')}[$__rate_interval]){own}",
            decimals=2,
        ),
        stat(
            "Memory of limit",
            "Resident memory as a share of memory_limit.",
            "percentunit",
            f"{resident} / {value('weir_memory_limit_bytes')}",
            steps((None, GREEN), (0.8, YELLOW), (0.9, RED)),
            noValue="no limit",
        ),
        stat(
            "Connections of limit",
            "Open connections as a share of max_connections.",
            "percentunit",
            f"{active} / ignoring (state) {value('weir_connections_limit')}",
            OF_LIMIT,
            decimals=1,
        ),
        stat(
            "Files of limit",
            "Open descriptors as a share of their limit.",
            "percentunit",
            f"{value('process_open_fds')} / {value('process_max_fds')}{own}",
            OF_LIMIT,
            decimals=1,
        ),
        stat(
            "Faulty objects",
            "Objects that are not in force as written.",
            "none",
            f"sum({value('weir_config_faulty_objects')})",
            ANY_IS_BAD,
        ),
    ]
    process = [
        lines(
            "CPU",
            "Processor cores in use.",
            "none",
            (f"rate({value('process_cpu_seconds_total')}[$__rate_interval]){own}", "cores"),
            min=0,
        ),
        lines(
            "Memory",
            "Resident memory, and the limit.",
            "bytes",
            (f"{resident}{own}", "resident"),
            (value("weir_memory_limit_bytes"), "limit"),
            min=0,
        ),
        lines(
            "Descriptors",
            "Open file descriptors, and their limit.",
            "none",
            (f"{value('process_open_fds')}{own}", "open"),
            (f"{value('process_max_fds')}{own}", "limit"),
            min=0,
        ),
    ]
    workers = [
        lines(
            "Revision by worker",
            "The revision of the configuration that each worker runs.",
            "none",
            (value("weir_config_revision"), "worker {{worker}}"),
        ),
        lines(
            "Stalls and restarts",
            "Workers that did not turn their event loop for a second, and restarts after a panic, in ten minutes.",
            "none",
            (f"sum by (worker) (increase({value('weir_worker_stalls_total')}[10m]))", "stalls of worker {{worker}}"),
            (
                f"sum by (worker) (increase({value('weir_worker_restarts_total')}[10m]))",
                "restarts of worker {{worker}}",
            ),
            min=0,
            thresholds=ANY_IS_BAD,
        ),
        lines(
            "Requests",
            "Requests a second, all routes and local replies.",
            "reqps",
            (f"rate({value('apisix_http_requests_total')}[$__rate_interval])", "requests"),
            min=0,
        ),
    ]
    connections = [
        lines(
            "Connections by state",
            "Client connections as nginx counts them, and the limit.",
            "none",
            (value("apisix_nginx_http_current_connections", ', state=~"active|reading|writing|waiting"'), "{{state}}"),
            (value("weir_connections_limit"), "limit"),
            min=0,
        ),
        lines(
            "New connections",
            "Accepted connections a second.",
            "cps",
            (rate("apisix_nginx_http_current_connections", more=', state="accepted"'), "accepted"),
            min=0,
        ),
        lines(
            "Connections to upstreams",
            "Kept connections that wait for a request.",
            "none",
            (value("weir_upstream_idle_connections"), "idle"),
            min=0,
        ),
        lines(
            "Refused and closed connections",
            "By limit, a second.",
            "cps",
            (rate("weir_connections_refused_total", "limit"), "refused: {{limit}}"),
            (rate("weir_connections_evicted_total", "limit, state"), "closed: {{limit}} {{state}}"),
            min=0,
        ),
        lines(
            "HTTP/2",
            "Connections of clients and requests in flight on them.",
            "none",
            (value("weir_http2_connections"), "connections"),
            (value("weir_http2_streams"), "requests"),
            min=0,
        ),
        lines(
            "HTTP/3",
            "Connections of clients, requests in flight on them and handshakes in progress.",
            "none",
            (value("weir_http3_connections"), "connections"),
            (value("weir_http3_streams"), "requests"),
            (value("weir_http3_handshakes"), "handshakes"),
            min=0,
        ),
        lines(
            "QUIC",
            "Datagrams passed between workers and dropped, clients that had to prove their address, and restarted endpoints, a second.",
            "ops",
            (rate("weir_http3_datagrams_passed_total"), "passed"),
            (rate("weir_http3_datagrams_dropped_total"), "dropped"),
            (rate("weir_http3_retries_total"), "address proofs"),
            (rate("weir_http3_restarts_total"), "restarts"),
            min=0,
        ),
        lines(
            "gRPC calls",
            "Calls a second by the status that the client got.",
            "reqps",
            (f"{rate('weir_grpc_calls_total', 'grpc_status')} > 0", "{{grpc_status}}"),
            min=0,
        ),
    ]
    logs = [
        lines(
            "Lost lines",
            "Lines of the logs lost in ten minutes.",
            "none",
            (f"increase({value('weir_access_log_dropped_lines_total')}[10m])", "access log"),
            (f"increase({value('weir_error_log_dropped_lines_total')}[10m])", "error log"),
            min=0,
            thresholds=ANY_IS_BAD,
        ),
        lines(
            "Entries of loggers",
            "Entries of log plugins a second by result.",
            "ops",
            (rate("weir_batch_entries_total", "name, result"), "{{name}} {{result}}"),
            min=0,
        ),
        lines(
            "Waiting entries",
            "Entries of loggers that wait or are being sent.",
            "none",
            (f"sum by (name) ({value('apisix_batch_process_entries')})", "{{name}}"),
            min=0,
        ),
        lines(
            "Plugin calls that fail",
            "Failed calls of plugins to their servers a second.",
            "ops",
            (rate("weir_plugin_call_failures_total", "plugin"), "{{plugin}}"),
            min=0,
        ),
        lines(
            "Plugin events",
            "Events in plugins a second.",
            "ops",
            (rate("weir_plugin_events_total", "plugin, event"), "{{plugin}} {{event}}"),
            min=0,
        ),
    ]
    caches = [
        lines(
            "Cache requests",
            "Requests of cached routes a second, by status.",
            "reqps",
            (rate("weir_cache_requests_total", "zone, status"), "{{zone}} {{status}}"),
            stacked=True,
            min=0,
        ),
        lines(
            "Cache size",
            "Bytes of each zone, and its limit.",
            "bytes",
            (value("weir_cache_bytes"), "{{zone}}"),
            (value("weir_cache_capacity_bytes"), "limit of {{zone}}"),
            min=0,
        ),
        lines(
            "Cache entries",
            "Keys of each zone, and failed reads and writes on disk in ten minutes.",
            "none",
            (value("weir_cache_entries"), "{{zone}}"),
            (f"increase({value('weir_cache_disk_failures_total')}[10m])", "disk failures of {{zone}}"),
            min=0,
        ),
    ]
    return [
        ("Now", now),
        ("Process", process),
        ("Workers", workers),
        ("Connections", connections),
        ("TLS", instance_sources.tls(rate, value)),
        ("Configuration and registries", instance_sources.sources(rate, value)),
        ("Logs and plugins", logs),
        ("Caches", caches),
    ]
