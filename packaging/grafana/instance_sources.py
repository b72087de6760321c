"""Panels of the dashboard "Weir instance" on TLS, the source of the configuration and registries."""

from panels import ANY_IS_BAD, lines


def tls(rate, value):
    """Panels on handshakes and certificates. `rate` and `value` write expressions of a metric."""
    return [
        lines(
            "TLS handshakes",
            "Handshakes of clients a second by result.",
            "ops",
            (rate("weir_tls_handshakes_total", "result"), "{{result}}"),
            min=0,
        ),
        lines(
            "Certificates",
            "Time until the end of each certificate.",
            "s",
            (f"min by (ssl, sni) ({value('weir_ssl_certificate_expiry_seconds')}) - time()", "{{ssl}} {{sni}}"),
        ),
        lines(
            "ACME and OCSP",
            "Certificates by the state of their order, and OCSP responses by state.",
            "none",
            (f"sum by (state) ({value('weir_acme_certificates')})", "acme: {{state}}"),
            (f"sum by (state) ({value('weir_ocsp_responses')})", "ocsp: {{state}}"),
            min=0,
        ),
        lines(
            "ACME attempts",
            "Attempts to get a certificate in an hour, by result.",
            "none",
            (f"sum by (result) (increase({value('weir_acme_attempts_total')}[1h]))", "{{result}}"),
            min=0,
        ),
    ]


def sources(rate, value):
    """Panels on etcd, the store, secrets and registries."""
    return [
        lines(
            "etcd",
            "1 while etcd answers, and while the copy on the disk is current.",
            "none",
            (value("apisix_etcd_reachable"), "reachable"),
            (value("weir_etcd_copy_is_current"), "copy is current"),
            min=0,
            max=1,
        ),
        lines(
            "Revision of etcd",
            "The revision up to which changes of etcd are known.",
            "none",
            (value("apisix_etcd_modify_indexes", ', key="x_etcd_index"'), "revision"),
        ),
        lines(
            "Store failures",
            "Failed reads and writes of the store in ten minutes.",
            "none",
            (f"increase({value('weir_store_failures_total')}[10m])", "failures"),
            min=0,
            thresholds=ANY_IS_BAD,
        ),
        lines(
            "Secrets and skipped plugins",
            "References to secret managers by state, and plugins that objects run without.",
            "none",
            (f"sum by (state) ({value('weir_secret_references')})", "{{state}}"),
            (value("weir_config_skipped_plugins"), "skipped plugins"),
            min=0,
        ),
        lines(
            "Registries",
            "Instances that are known of each registry, and routes made of its services.",
            "none",
            (value("weir_discovery_instances"), "{{registry}}"),
            (value("weir_auto_routes"), "routes of {{registry}}"),
            min=0,
        ),
        lines(
            "Age of registries",
            "Time since the last good answer.",
            "s",
            (value("weir_discovery_answer_age_seconds"), "{{registry}}"),
            min=0,
        ),
        lines(
            "Failures of registries",
            "Failed requests to registries and failed registrations, a second.",
            "ops",
            (rate("weir_discovery_failures_total", "registry"), "{{registry}}"),
            (rate("weir_registration_failures_total", "registry"), "registration at {{registry}}"),
            min=0,
        ),
        lines(
            "Registration",
            "1 while the registry has this instance.",
            "none",
            (value("weir_registration_registered"), "{{registry}}"),
            min=0,
            max=1,
        ),
    ]
