-- Makes the tables of a request.
local native = ...

local rawget, rawset, setmetatable = rawget, rawset, setmetatable
local get_variable, set_variable, context_field = native.get_variable, native.set_variable, native.context_field
local set_external_user = native.set_external_user
-- Variables that programs have added with `apisix.core.ctx`.
local added = native.variables

-- `_own` of a table of variables holds those that programs have set and the results of getters. They are not in the table
-- itself, so that each write comes to `__newindex`, by which the rest of the gateway learns of it.
local function keep(own, name, value)
    local kept = rawget(own, "_own")
    if not kept then
        kept = {}
        rawset(own, "_own", kept)
    end
    kept[name] = value
end

local of_variables = {
    __metatable = false,
    __index = function(own, name)
        local kept = rawget(own, "_own")
        if kept and kept[name] ~= nil then
            return kept[name]
        end
        local variable = added[name]
        if not variable then
            return get_variable(name)
        end
        local value = variable.getter(rawget(own, "_ctx"))
        if value ~= nil and variable.is_kept then
            keep(own, name, value)
        end
        return value
    end,
    __newindex = function(own, name, value)
        if not set_variable(name, value) then
            keep(own, name, value)
        end
    end,
}
local of_context = {
    __metatable = false,
    __index = function(own, name)
        local value, is_kept = context_field(name)
        if is_kept then
            rawset(own, name, value)
        end
        return value
    end,
    -- The user of a login without a consumer is one for plugins of the gateway, such as `acl`, too.
    __newindex = function(own, name, value)
        if name ~= "external_user" or not set_external_user(value) then
            rawset(own, name, value)
        end
    end,
}

local function context()
    local ctx = { var = false }
    -- The constructors have room for the fields.
    local variables = setmetatable({ _ctx = ctx, _own = false }, of_variables)
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
