-- apisix.core.ctx: variables that scripts add to those of the request.
local _, native = ...
local error, type = error, type

local M = { version = 0.2 }

-- Gives `ctx.var.NAME` the result of `getter(ctx)`; kept for the request unless `options.no_cacheable`.
function M.register_var(name, getter, options)
    if type(getter) ~= "function" then
        error("the getter of registered var should be a function", 2)
    end
    native.register_variable(name)
    native.variables[name] = { getter = getter, is_kept = not (options and options.no_cacheable) }
end

return M
