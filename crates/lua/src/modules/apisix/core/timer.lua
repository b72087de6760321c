-- apisix.core.timer: a function that is called again and again on the worker.
local log = require("apisix.core.log")
local sleep = require("apisix.core.utils").sleep
local now, pcall = ngx.now, pcall

local M = { version = 0.1 }

local function run(timer)
    timer.start_time = now()
    repeat
        local ok, reason = pcall(timer.callback_fun)
        local pause = ok and timer.sleep_succ or timer.sleep_fail
        if not ok then
            log.error("failed to run the timer: ", timer.name, " err: ", reason)
        end
        if pause > 0 then
            sleep(pause)
        end
        ngx.update_time()
    until timer.each_ttl <= 0 or now() >= timer.start_time + timer.each_ttl
end

local function step(is_premature, timer)
    if is_premature or timer.running then
        return
    end
    timer.running = true
    local ok, reason = pcall(run, timer)
    if not ok then
        log.error("failed to run timer[", timer.name, "] err: ", reason)
    end
    timer.running = false
end

function M.new(name, callback, options)
    if not name then
        return nil, "missing argument: name"
    elseif not callback then
        return nil, "missing argument: callback_fun"
    end
    options = options or {}
    local timer = {
        name = name, callback_fun = callback, running = false, start_time = 0,
        each_ttl = options.each_ttl or 1, sleep_succ = options.sleep_succ or 1, sleep_fail = options.sleep_fail or 5,
    }
    local ok, reason = ngx.timer.every(options.check_interval or 1, step, timer)
    if not ok then
        return nil, reason
    end
    ok, reason = ngx.timer.at(0, step, timer)
    if not ok then
        return nil, reason
    end
    return timer
end

return M
