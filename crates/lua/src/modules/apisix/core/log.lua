-- apisix.core.log: one function for each level of the log. A level that is off costs a comparison.
local _, native = ...
local setmetatable, tostring, unpack, select = setmetatable, tostring, unpack, select
local ngx_log, enabled = ngx.log, native.log_level

local levels = {
    stderr = ngx.STDERR, emerg = ngx.EMERG, alert = ngx.ALERT, crit = ngx.CRIT, error = ngx.ERR,
    warn = ngx.WARN, notice = ngx.NOTICE, info = ngx.INFO, debug = ngx.DEBUG,
}

local M = { version = 0.4 }

for name, level in pairs(levels) do
    M[name] = function(...)
        if level <= enabled() then
            return ngx_log(level, ...)
        end
    end
end

-- A log the lines of which begin with `prefix`.
function M.new(prefix)
    local own = { version = M.version }
    for name, level in pairs(levels) do
        own[name] = function(...)
            if level <= enabled() then
                return ngx_log(level, prefix, ...)
            end
        end
    end
    return own
end

local delayed = {
    __metatable = false,
    __tostring = function(self)
        if self.text == nil then
            local value, reason = self.call(unpack(self.arguments, 1, self.count))
            if reason then
                ngx_log(ngx.WARN, "failed to exec: ", reason)
            end
            self.text = tostring(value)
        end
        return self.text
    end,
}

-- A value that is computed when the log asks for its text.
function M.delay_exec(call, ...)
    return setmetatable({ call = call, arguments = { ... }, count = select("#", ...) }, delayed)
end

return M
