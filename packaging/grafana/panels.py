"""Parts of Grafana dashboards: panels with a place on the grid, variables, annotations. They know no metric."""

import re

# The version of the form of dashboards: that of Grafana 10, which later versions read.
SCHEMA_VERSION = 39
# The columns of Grafana's grid.
COLUMNS = 24
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

GREEN, YELLOW, RED = "green", "#EAB839", "red"


def steps(*levels):
    """Thresholds: the first colour has no lower end, each further one begins at its value."""
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for value, color in levels]}


# Frequent thresholds: none, any is bad, shares of a limit, shares of errors.
NEUTRAL = steps((None, GREEN))
ANY_IS_BAD = steps((None, GREEN), (1, RED))
OF_LIMIT = steps((None, GREEN), (0.8, YELLOW), (0.9, RED))
ERRORS = steps((None, GREEN), (0.001, YELLOW), (0.01, RED))


def target(expr, legend="", instant=False, table=False, ref="A"):
    """One query of a panel."""
    made = {"datasource": DATASOURCE, "expr": expr, "legendFormat": legend or "__auto", "refId": ref}
    if instant:
        made.update({"instant": True, "range": False})
    if table:
        made["format"] = "table"
    return made


def panel(kind, title, description, unit, queries, width=8, height=8, thresholds=NEUTRAL, **options):
    """A panel without a place. `queries` are pairs of expression and legend."""
    is_instant = kind in ("stat", "gauge", "table", "bargauge")
    targets = [
        target(expr, legend, instant=is_instant, table=kind == "table", ref=chr(ord("A") + index))
        for index, (expr, legend) in enumerate(queries)
    ]
    defaults = {
        "unit": unit,
        "thresholds": thresholds,
        "color": {"mode": "thresholds" if is_instant else "palette-classic"},
    }
    for name in ("min", "max", "decimals", "noValue", "mappings"):
        if name in options:
            defaults[name] = options.pop(name)
    if kind == "timeseries":
        stack = "normal" if options.pop("stacked", False) else "none"
        marked = "dashed" if thresholds is not NEUTRAL else "off"
        defaults["custom"] = {
            "fillOpacity": 12,
            "lineWidth": 1,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": stack, "group": "A"},
            "thresholdsStyle": {"mode": marked},
        }
        shown = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}
    elif kind == "stat":
        shown = {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none",
            "textMode": options.pop("text_mode", "auto"),
        }
    elif kind == "state-timeline":
        defaults["custom"] = {"fillOpacity": 80, "lineWidth": 0}
        defaults["color"] = {"mode": "thresholds"}
        shown = {"mergeValues": True, "showValue": "never", "legend": {"showLegend": False}}
    else:
        shown = {"showHeader": True}
    made = {
        "type": kind,
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": options.pop("overrides", [])},
        "options": shown,
        "targets": targets,
        "gridPos": {"w": width, "h": height},
    }
    made.update(options)
    return made


def stat(title, description, unit, expr, thresholds=NEUTRAL, legend="", **options):
    """One number of now."""
    return panel("stat", title, description, unit, [(expr, legend)], 3, 4, thresholds, **options)


def lines(title, description, unit, *queries, **options):
    """Lines over time."""
    return panel("timeseries", title, description, unit, list(queries), **options)


def placed(rows):
    """Gives the panels of the rows their places and numbers, from left to right; a row begins with its title."""
    made, top, number = [], 0, 0
    for title, panels in rows:
        number += 1
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        made.append({"type": "row", "title": title, "collapsed": False, "panels": [], "id": number, "gridPos": place})
        top += 1
        left, height = 0, 0
        for one in panels:
            size = one["gridPos"]
            if left + size["w"] > COLUMNS:
                top, left, height = top + height, 0, 0
            number += 1
            made.append({**one, "id": number, "gridPos": {"x": left, "y": top, **size}})
            left, height = left + size["w"], max(height, size["h"])
        top += height
    return made


def variable(name, label, query, multi=True):
    """A variable with the values of a label."""
    made = {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": multi,
        "includeAll": multi,
        "options": [],
        "hide": 0,
    }
    if multi:
        made.update({"allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]}})
    return made


def datasource_variable():
    """The variable that chooses the Prometheus."""
    return {
        "type": "datasource",
        "name": "datasource",
        "label": "Data source",
        "query": "prometheus",
        "refresh": 1,
        "regex": "",
        "multi": False,
        "includeAll": False,
        "options": [],
        "hide": 0,
    }


def annotation(name, color, expr, text):
    """Marks where a query has a value."""
    return {
        "datasource": DATASOURCE,
        "enable": True,
        "expr": expr,
        "iconColor": color,
        "name": name,
        "step": "60s",
        "textFormat": text,
        "titleFormat": name,
    }


def dashboard(uid, title, description, variables, annotations, rows):
    """A whole dashboard."""
    own = {
        "builtIn": 1,
        "datasource": {"type": "grafana", "uid": "-- Grafana --"},
        "enable": True,
        "hide": True,
        "iconColor": "rgba(0, 211, 255, 1)",
        "name": "Annotations & Alerts",
        "type": "dashboard",
    }
    link = {
        "type": "dashboards",
        "title": "Weir",
        "tags": ["weir"],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }
    assert re.fullmatch(r"[a-z-]{1,40}", uid), "Grafana's limit on a uid"
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["weir"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "timezone": "",
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "fiscalYearStartMonth": 0,
        "links": [link],
        "annotations": {"list": [own, *annotations]},
        "templating": {"list": [datasource_variable(), *variables]},
        "panels": placed(rows),
    }
