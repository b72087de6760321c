-- resty.lrucache: a cache of an interpreter that drops the entry which was not used for the longest time.
local now, setmetatable, type = ngx.now, setmetatable, type

local Cache = { _VERSION = "0.13" }
local of_caches = { __index = Cache, __metatable = false }

-- A ring of entries in the order of their use, with the cache's `ring` before the first.
local function unlink(entry)
    entry.before.after, entry.after.before = entry.after, entry.before
end

local function link_first(ring, entry)
    entry.before, entry.after = ring, ring.after
    ring.after.before, ring.after = entry, entry
end

function Cache.new(size)
    if type(size) ~= "number" or size < 1 then
        return nil, "size too small"
    end
    local ring = {}
    ring.before, ring.after = ring, ring
    return setmetatable({ size = size, length = 0, entries = {}, ring = ring }, of_caches)
end

-- The value; or nothing, and the value that has expired.
function Cache:get(key)
    local entry = self.entries[key]
    if not entry then
        return nil
    end
    unlink(entry)
    link_first(self.ring, entry)
    if entry.until_time and entry.until_time < now() then
        return nil, entry.value, entry.flags
    end
    return entry.value, nil, entry.flags
end

-- Keeps `value` for `seconds`, or until there is no room.
function Cache:set(key, value, seconds, flags)
    local entry = self.entries[key]
    if entry then
        unlink(entry)
    elseif self.length >= self.size then
        entry = self.ring.before
        unlink(entry)
        self.entries[entry.key] = nil
        entry = {}
    else
        entry = {}
        self.length = self.length + 1
    end
    entry.key, entry.value, entry.flags = key, value, flags or 0
    entry.until_time = seconds and seconds > 0 and now() + seconds or nil
    self.entries[key] = entry
    link_first(self.ring, entry)
end

function Cache:delete(key)
    local entry = self.entries[key]
    if entry then
        unlink(entry)
        self.entries[key] = nil
        self.length = self.length - 1
    end
end

function Cache:count()
    return self.length
end

function Cache:capacity()
    return self.size
end

-- Keys from the one used last on, at most `count`.
function Cache:get_keys(count, keys)
    keys = keys or {}
    local entry, index = self.ring.after, 0
    while entry ~= self.ring and (not count or count == 0 or index < count) do
        index = index + 1
        keys[index] = entry.key
        entry = entry.after
    end
    keys[index + 1] = nil
    return keys
end

function Cache:flush_all()
    self.entries, self.length = {}, 0
    self.ring.before, self.ring.after = self.ring, self.ring
end

return Cache
