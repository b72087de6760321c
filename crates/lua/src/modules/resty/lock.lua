-- resty.lock: locks in a shared dictionary, which hold between workers.
local min, setmetatable, tostring, type = math.min, setmetatable, tostring, type

local Lock = { _VERSION = "0.09" }
local of_locks = { __index = Lock, __metatable = false }

function Lock:new(name, options)
    if name == nil then
        return nil, "dictionary not found"
    end
    options = options or {}
    -- The name alone: the dictionary is a table of the library.
    return setmetatable({
        dictionary = tostring(name), exptime = options.exptime or 30, timeout = options.timeout or 5,
        step = options.step or 0.001, ratio = options.ratio or 2, max_step = options.max_step or 0.5,
    }, of_locks)
end

-- The seconds that it waited, or nothing and the reason.
function Lock:lock(key)
    if key == nil then
        return nil, "nil key"
    elseif self.key then
        return nil, "locked"
    end
    key = tostring(key)
    local waited, step = 0, min(self.step, self.timeout)
    while true do
        local ok, reason = ngx.shared[self.dictionary]:add(key, true, self.exptime)
        if ok then
            self.key = key
            return waited
        elseif reason ~= "exists" then
            return nil, reason
        elseif waited >= self.timeout then
            return nil, "timeout"
        end
        step = min(step, self.timeout - waited)
        if step <= 0 then
            return nil, "timeout"
        end
        ngx.sleep(step)
        waited, step = waited + step, min(step * self.ratio, self.max_step)
    end
end

function Lock:unlock()
    if not self.key then
        return nil, "unlocked"
    end
    local ok, reason = ngx.shared[self.dictionary]:delete(self.key)
    if ok == false or (ok == nil and reason) then
        return nil, reason
    end
    self.key = nil
    return 1
end

function Lock:expire(seconds)
    if not self.key then
        return nil, "unlocked"
    end
    local ok, reason = ngx.shared[self.dictionary]:replace(self.key, true, seconds or self.exptime)
    if not ok then
        return nil, reason
    end
    return true
end

return Lock
