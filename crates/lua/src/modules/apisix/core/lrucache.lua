-- apisix.core.lrucache: caches that make what they lack, by key and version.
local new_lru = require("resty.lrucache").new
local log = require("apisix.core.log")
local tostring = tostring

-- Entries and seconds of a cache without settings, and of one of the type `plugin`.
local GLOBAL_ENTRIES, GLOBAL_SECONDS = 1024, 3600
local PLUGIN_ENTRIES, PLUGIN_SECONDS = 8, 300
-- Seconds between two looks for an entry that another request makes, and the longest wait for it.
local WAIT_STEP, WAIT_MAX = 0.005, 5

local function valid(cache, options, ttl, key, version, refresh)
    local entry, stale = cache:get(key)
    if entry and entry.ver == version then
        return entry
    end
    if not stale or stale.ver ~= version then
        return nil
    end
    if not options.invalid_stale then
        cache:set(key, stale, ttl)
        return stale
    end
    if options.refresh_stale then
        refresh()
        return stale
    end
    return nil
end

local function new(options)
    options = options or {}
    local is_plugin = options.type == "plugin"
    local ttl = options.ttl or (is_plugin and PLUGIN_SECONDS or GLOBAL_SECONDS)
    local cache = new_lru(options.count or (is_plugin and PLUGIN_ENTRIES or GLOBAL_ENTRIES))
    local failures = options.neg_ttl and options.neg_count and new_lru(options.neg_count)
    local in_progress, refreshing = {}, {}

    local function make(key, version, create, ...)
        local value, reason = create(...)
        if value ~= nil then
            cache:set(key, { val = value, ver = version }, ttl)
        elseif failures then
            failures:set(key, { err = reason, ver = version }, options.neg_ttl)
        end
        return value, reason
    end

    local function refresh(key, version, create, ...)
        if refreshing[key] then
            return
        end
        refreshing[key] = true
        local ok = ngx.timer.at(0, function(_, ...)
            local done, value, reason = pcall(make, key, version, create, ...)
            refreshing[key] = nil
            if not done or value == nil then
                log.error("failed to refresh stale obj for key ", tostring(key), ": ", reason or value)
            end
        end, ...)
        if not ok then
            refreshing[key] = nil
        end
    end

    return function(key, version, create, ...)
        if failures then
            local failure = failures:get(key)
            if failure and failure.ver == version then
                return nil, failure.err
            end
        end
        local arguments, count = { ... }, select("#", ...)
        local function renew()
            refresh(key, version, create, unpack(arguments, 1, count))
        end
        local entry = valid(cache, options, ttl, key, version, renew)
        if entry then
            return entry.val
        end
        if not options.serial_creating then
            return make(key, version, create, ...)
        end
        local waited = 0
        while in_progress[key] do
            if waited >= WAIT_MAX then
                return nil, "failed to acquire the lock: timeout"
            end
            ngx.sleep(WAIT_STEP)
            waited = waited + WAIT_STEP
        end
        entry = valid(cache, options, ttl, key, version, renew)
        if entry then
            return entry.val
        end
        in_progress[key] = true
        local done, value, reason = pcall(make, key, version, create, ...)
        in_progress[key] = nil
        if not done then
            error(value, 0)
        end
        return value, reason
    end
end

local function key_and_version(ctx, extra)
    local key = tostring(ctx.conf_type) .. "#" .. tostring(ctx.conf_id)
    if extra then
        key = key .. "#" .. extra
    end
    return key, ctx.conf_version
end

return {
    version = 0.1,
    new = new,
    global = new(),
    plugin_ctx = function(cache, ctx, extra, create, ...)
        local key, version = key_and_version(ctx, extra)
        return cache(key, version, create, ...)
    end,
    plugin_ctx_id = function(ctx, extra)
        local key, version = key_and_version(ctx, extra)
        return key .. "#" .. tostring(version)
    end,
}
