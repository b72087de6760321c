-- apisix.utils.batch-processor-manager: one batch processor for each configuration of a plugin.
local core = require("apisix.core")
local plugin = require("apisix.plugin")
local Processor = require("apisix.utils.batch-processor")
local now = ngx.now
local pairs, setmetatable = pairs, setmetatable

-- Entries of one plugin that wait on a worker, because each may hold bodies; metadata may set another number.
local PENDING_ENTRIES_MAX = 8192
-- Seconds between two lines about entries that were dropped.
local DROPPED_LOG_SECONDS = 1
-- Seconds after which processors without entries are dropped.
local STALE_SECONDS = 1800

local Manager = {}
local of_managers = { __index = Manager, __metatable = false }

function Manager.new(name, plugin_name)
    return setmetatable({
        name = name, plugin_name = plugin_name or name, buffers = {}, stale_timer_running = false,
        total_pushed_entries = 0, total_stale_processed_entries = 0, processed_entries_snapshot = 0,
        discarded_entries = 0, last_discard_log_time = 0,
    }, of_managers)
end

-- Adds the settings of batches to the schema of a plugin.
function Manager:wrap_schema(schema)
    for name, field in pairs(core.table.deepcopy(Processor.schema).properties) do
        schema.properties[name] = schema.properties[name] or field
    end
    schema.properties.name.default = self.name
    return schema
end

function Manager:wrap_metadata_schema(schema)
    schema.properties.max_pending_entries = {
        type = "integer", minimum = 1, default = PENDING_ENTRIES_MAX,
        description = "the number of waiting entries from which new ones are dropped",
    }
    return schema
end

local function drop_stale(is_premature, self)
    if is_premature then
        return
    end
    for key, processor in pairs(self.buffers) do
        if #processor.entry_buffer.entries == 0 and #processor.batch_to_process == 0 then
            self.total_stale_processed_entries = self.total_stale_processed_entries + processor.processed_entries
            self.buffers[key] = nil
        end
    end
    self.stale_timer_running = false
end

local stale_seconds = STALE_SECONDS

function Manager.set_check_stale_interval(seconds)
    stale_seconds = seconds
end

local function watch_stale(self)
    if not self.stale_timer_running then
        self.stale_timer_running = ngx.timer.at(stale_seconds, drop_stale, self) and true or false
    end
end

local function pending_max(self)
    local metadata = plugin.plugin_metadata(self.plugin_name)
    return metadata and metadata.value and metadata.value.max_pending_entries or PENDING_ENTRIES_MAX
end

-- Counted anew only when the number of entries since the last count reaches the limit.
local function is_full(self, limit)
    if self.total_pushed_entries - self.processed_entries_snapshot < limit then
        return false
    end
    local processed = self.total_stale_processed_entries
    for _, processor in pairs(self.buffers) do
        processed = processed + processor.processed_entries
    end
    self.processed_entries_snapshot = processed
    return self.total_pushed_entries - processed >= limit
end

local function drop(self, limit)
    self.discarded_entries = self.discarded_entries + 1
    if now() - self.last_discard_log_time < DROPPED_LOG_SECONDS then
        return
    end
    core.log.error("max pending entries limit exceeded. discarding entry. total_pushed_entries: ",
        self.total_pushed_entries, " total_processed_entries: ", self.processed_entries_snapshot,
        " max_pending_entries: ", limit, " discarded_entries: ", self.discarded_entries)
    self.last_discard_log_time, self.discarded_entries = now(), 0
end

local function push(self, processor, entry)
    processor:push(entry)
    self.total_pushed_entries = self.total_pushed_entries + 1
    return true
end

-- True where the entry was taken or dropped, false where there is no processor for `conf` yet.
function Manager:add_entry(conf, entry)
    local limit = pending_max(self)
    if is_full(self, limit) then
        drop(self, limit)
        return true
    end
    watch_stale(self)
    local processor = self.buffers[plugin.conf_version(conf)]
    if not processor then
        return false
    end
    return push(self, processor, entry)
end

function Manager:add_entry_to_new_processor(conf, entry, ctx, call)
    if is_full(self, pending_max(self)) then
        return
    end
    watch_stale(self)
    local processor, reason = Processor:new(call, {
        name = conf.name, batch_max_size = conf.batch_max_size, max_retry_count = conf.max_retry_count,
        retry_delay = conf.retry_delay, buffer_duration = conf.buffer_duration,
        inactive_timeout = conf.inactive_timeout,
        route_id = ctx.var.route_id, server_addr = ctx.var.server_addr,
    })
    if not processor then
        core.log.error("error when creating the batch processor: ", reason)
        return false
    end
    self.buffers[plugin.conf_version(conf)] = processor
    return push(self, processor, entry)
end

return Manager
