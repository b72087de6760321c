-- apisix.core: the parts of APISIX's library, loaded together.
local _, native = ...

local config = native.complete("apisix.core.config", {
    local_conf = require("apisix.core.config_local").local_conf,
    type = "weir",
})

return native.complete("apisix.core", {
    version = require("apisix.core.version"),
    config = config,
    log = require("apisix.core.log"),
    json = require("apisix.core.json"),
    string = require("apisix.core.string"),
    table = require("apisix.core.table"),
    math = require("apisix.core.math"),
    sleep = require("apisix.core.utils").sleep,
    utils = native.complete("apisix.core.utils", require("apisix.core.utils")),
    schema = require("apisix.core.schema"),
    lrucache = native.complete("apisix.core.lrucache", require("apisix.core.lrucache")),
    request = native.complete("apisix.core.request", require("apisix.core.request")),
    response = native.complete("apisix.core.response", require("apisix.core.response")),
    ctx = native.complete("apisix.core.ctx", require("apisix.core.ctx")),
    timer = require("apisix.core.timer"),
    id = native.complete("apisix.core.id", require("apisix.core.id")),
    ip = native.complete("apisix.core.ip", require("apisix.core.ip")),
    io = require("apisix.core.io"),
    os = require("apisix.core.os"),
    env = require("apisix.core.env"),
    event = require("apisix.core.event"),
    resolver = native.complete("apisix.core.resolver", require("apisix.core.resolver")),
    tablepool = require("tablepool"),
    empty_tab = {},
})
