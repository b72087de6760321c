-- apisix.core.version: the release of APISIX that plugins are written for.
return { VERSION = "3.18.0" }
