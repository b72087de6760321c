-- Makes the tables of a request.
local native = ...

local rawget, rawset, setmetatable = rawget, rawset, setmetatable
local get_variable, set_variable, context_field = native.get_variable, native.set_variable, native.context_field
-- Variables that programs have added with `apisix.core.ctx`.
local added = native.variables

local of_variables = {
    __index = function(own, name)
        local variable = added[name]
        if not variable then
            return get_variable(name)
        end
        local value = variable.getter(rawget(own, "_ctx"))
        if value ~= nil and variable.is_kept then
            rawset(own, name, value)
        end
        return value
    end,
    -- A variable that Weir does not have is kept for the request.
    __newindex = function(own, name, value)
        if not set_variable(name, value) then
            rawset(own, name, value)
        end
    end,
}
local of_context = {
    __index = function(own, name)
        local value, is_kept = context_field(name)
        if is_kept then
            rawset(own, name, value)
        end
        return value
    end,
}

local function context()
    local ctx = { var = false }
    -- The constructors have room for the fields.
    local variables = setmetatable({ _ctx = ctx }, of_variables)
    ctx.var = variables
    return setmetatable(ctx, of_context), variables
end

local function in_turn(functions)
    return function(config, ctx)
        for index = 1, #functions do
            local code, body = functions[index](config, ctx)
            if code or body then
                return code, body
            end
        end
    end
end

return { context = context, in_turn = in_turn }
