-- apisix.plugin: settings, metadata and versions of plugins.
local _, native = ...
local core = require("apisix.core")
local tostring, type = tostring, type

local M = {}

-- The settings of the plugin `name` in `plugin_attr`.
function M.plugin_attr(name)
    return core.table.try_read_attr(core.config.local_conf(), "plugin_attr", name)
end
native.returns_shared[M.plugin_attr] = true

-- Tables around metadata; an entry goes with its metadata.
local wrapped = setmetatable({}, { __mode = "k" })

-- The metadata of the plugin `name`: `{ value = ... }`, or nothing.
function M.plugin_metadata(name)
    local value = native.metadata[name]
    if type(value) ~= "table" then
        return nil
    end
    wrapped[value] = wrapped[value] or { value = value }
    return wrapped[value]
end

-- The module of the Lua plugin `name`; nothing for plugins that are built in.
function M.get(name)
    return native.plugins[name]
end

-- A text that is equal for equal configurations; kept in the configuration.
function M.conf_version(conf)
    if not conf._version then
        local plain = {}
        for key, value in pairs(conf) do
            local kind = type(value)
            if kind ~= "function" and kind ~= "userdata" then
                plain[key] = value
            end
        end
        local text = core.json.stably_encode(plain) or tostring(conf)
        conf._version = tostring(ngx.crc32_long(text))
    end
    return conf._version
end

-- Sends a part of a response that a plugin makes itself.
function M.lua_response_filter(_, _, body, is_kept, waits)
    local ok, reason = ngx.print(body)
    if not ok then
        return false, reason
    end
    if not is_kept then
        ok, reason = ngx.flush(waits == true)
        if not ok then
            return false, reason
        end
    end
    return true
end

return native.complete("apisix.plugin", M)
