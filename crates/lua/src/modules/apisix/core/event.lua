-- apisix.core.event: one handler for each kind of event inside an interpreter.
local handlers = {}

return {
    CONST = { BUILD_ROUTER = 1 },
    push = function(kind, ...)
        local handler = handlers[kind]
        if handler then
            handler(...)
        end
    end,
    register = function(kind, handler) handlers[kind] = handler end,
    unregister = function(kind) handlers[kind] = nil end,
}
