-- Coroutines of scripts. A function that waits yields the mark WAIT; it passes through the coroutines of the script up to the
-- runner of the call, which resumes with the results.
local native, library = ...

local error, select, type, unpack = error, select, type, unpack
local create, running, status = coroutine.create, coroutine.running, coroutine.status
local raw_resume, raw_yield = coroutine.resume, coroutine.yield
local check, depth_max = native.check, native.coroutine_depth_max

local WAIT = {}
-- Coroutines of the script inside each other.
local depth = 0
local enter

local function settle(co, ok, first, ...)
    depth = depth - 1
    if ok and first == WAIT then
        return enter(co, raw_yield(WAIT))
    end
    check()
    return ok, first, ...
end

function enter(co, ...)
    if depth >= depth_max then
        return false, "more than " .. depth_max .. " coroutines inside each other"
    end
    depth = depth + 1
    return settle(co, raw_resume(co, ...))
end

local function resume(co, ...)
    if type(co) ~= "thread" then
        error("bad argument #1 to 'resume' (coroutine expected)", 2)
    end
    return enter(co, ...)
end

local function passed(ok, ...)
    if not ok then
        error((...), 0)
    end
    return ...
end

local function wrap(call)
    local co = create(call)
    return function(...)
        return passed(enter(co, ...))
    end
end

local function yield(...)
    if depth == 0 then
        error("attempt to yield outside a coroutine", 2)
    end
    return raw_yield(...)
end

-- Ends a call, and waits for the next one.
local function serve(call, ...)
    return serve(raw_yield(true, call(...)))
end

-- Makes a function that waits of one that begins to.
local function waiting(start)
    return function(...)
        start(...)
        return raw_yield(WAIT)
    end
end

return {
    new = function() return create(serve) end,
    waiting = waiting,
    coroutines = {
        create = create, resume = resume, wrap = wrap, yield = yield, status = status,
        running = function()
            if depth > 0 then
                return running()
            end
        end,
    },
}
