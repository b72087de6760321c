#!/usr/bin/env python3
"""Writes the Grafana dashboards of Weir as JSON files beside this one; with --check it only compares them."""

import json
import pathlib
import sys

from panels import annotation, dashboard, variable
import overview
import routes
import instance

HERE = pathlib.Path(__file__).resolve().parent
SELECTED = 'job=~"$job", instance=~"$instance"'

JOB = variable("job", "Job", "label_values(weir_build_info, job)")
INSTANCES = variable("instance", "Instance", 'label_values(weir_build_info{job=~"$job"}, instance)')
ANNOTATIONS = [
    annotation(
        "Configuration changed",
        "purple",
        f'changes(weir_config_revision{{{SELECTED}, worker="0"}}[1m]) > 0',
        "{{instance}} runs another revision",
    ),
    annotation(
        "Instance started",
        "blue",
        f"(time() - process_start_time_seconds{{{SELECTED}}} < 60) and on (job, instance) weir_build_info{{{SELECTED}}}",
        "{{instance}}",
    ),
]


def made():
    """The dashboards by the names of their files."""
    return {
        "weir-overview.json": dashboard(
            "weir-overview",
            "Weir overview",
            "Traffic, failures, upstreams and configuration of all instances.",
            [JOB, INSTANCES],
            ANNOTATIONS,
            overview.rows(SELECTED),
        ),
        "weir-routes.json": dashboard(
            "weir-routes",
            "Weir routes",
            "Routes, services, consumers and upstreams in detail.",
            [
                JOB,
                INSTANCES,
                variable("route", "Route", f"label_values(apisix_http_status{{{SELECTED}}}, route)"),
                variable("service", "Service", f"label_values(apisix_http_status{{{SELECTED}}}, service)"),
                variable("consumer", "Consumer", f"label_values(apisix_http_status{{{SELECTED}}}, consumer)"),
                variable("upstream", "Upstream", f"label_values(weir_upstream_requests{{{SELECTED}}}, upstream)"),
            ],
            ANNOTATIONS,
            routes.rows(SELECTED),
        ),
        "weir-instance.json": dashboard(
            "weir-instance",
            "Weir instance",
            "Process, workers, connections, TLS, logs and caches of one instance.",
            [
                JOB,
                variable("instance", "Instance", 'label_values(weir_build_info{job=~"$job"}, instance)', multi=False),
            ],
            ANNOTATIONS,
            instance.rows(SELECTED),
        ),
    }


def main():
    for name, value in made().items():
        text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
        path = HERE / name
        if sys.argv[1:] != ["--check"]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{name} is not as its source: run packaging/grafana/dashboards.py")


if __name__ == "__main__":
    main()
