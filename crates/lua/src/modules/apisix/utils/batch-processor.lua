-- apisix.utils.batch-processor: collects entries and gives them to a function in batches, on timers of the worker.
local core = require("apisix.core")
local now, timer_at = ngx.now, ngx.timer.at
local ipairs, setmetatable, type = ipairs, setmetatable, type

local schema = {
    type = "object",
    properties = {
        name = { type = "string", default = "log buffer" },
        max_retry_count = { type = "integer", minimum = 0, default = 0 },
        retry_delay = { type = "integer", minimum = 0, default = 1 },
        buffer_duration = { type = "integer", minimum = 1, default = 60 },
        inactive_timeout = { type = "integer", minimum = 1, default = 5 },
        batch_max_size = { type = "integer", minimum = 1, default = 1000 },
    },
}

local Processor = { schema = schema }
local of_processors = { __index = Processor, __metatable = false }

-- Runs `call` after `delay` seconds, or at once when the worker ends. False where there is no timer for it.
local function schedule(delay, call, ...)
    local ok, reason = timer_at(delay, call, ...)
    if not ok and reason == "process exiting" then
        ok, reason = timer_at(0, call, ...)
    end
    if not ok then
        core.log.error("failed to create process timer: ", reason)
        return false
    end
    return true
end

local function process(_, self, batch)
    local ok, reason, first_failed = self.func(batch.entries, self.batch_max_size)
    local count = #batch.entries
    if ok then
        self.processed_entries = self.processed_entries + count
        core.log.debug("Batch Processor[", self.name, "] successfully processed the entries")
        return
    end
    if first_failed then
        core.log.error("Batch Processor[", self.name, "] failed to process entries [", count + 1 - first_failed, "/",
            count, "]: ", reason)
        local rest = {}
        for index = first_failed, count do
            rest[#rest + 1] = batch.entries[index]
        end
        batch.entries = rest
        self.processed_entries = self.processed_entries + first_failed - 1
    else
        core.log.error("Batch Processor[", self.name, "] failed to process entries: ", reason)
    end
    batch.retry_count = batch.retry_count + 1
    if batch.retry_count <= self.max_retry_count and #batch.entries > 0
        and schedule(self.retry_delay, process, self, batch)
    then
        return
    end
    self.processed_entries = self.processed_entries + #batch.entries
    core.log.error("Batch Processor[", self.name, "] exceeded the max_retry_count[", batch.retry_count,
        "] dropping the entries")
end

local wait

local function flush(is_premature, self)
    local is_due = is_premature or ngx.worker.exiting() or now() - self.last_entry_t >= self.inactive_timeout
        or now() - self.first_entry_t >= self.buffer_duration
    if is_due then
        self.is_timer_running = false
        self:process_buffer()
        return
    end
    wait(self)
end

function wait(self)
    self.is_timer_running = schedule(self.inactive_timeout, flush, self)
end

function Processor:new(call, config)
    local ok, reason = core.schema.check(schema, config)
    if not ok then
        return nil, reason
    elseif type(call) ~= "function" then
        return nil, "Invalid argument, arg #1 must be a function"
    end
    return setmetatable({
        func = call, name = config.name, route_id = config.route_id, server_addr = config.server_addr,
        max_retry_count = config.max_retry_count, retry_delay = config.retry_delay,
        buffer_duration = config.buffer_duration, inactive_timeout = config.inactive_timeout,
        batch_max_size = config.batch_max_size,
        entry_buffer = { entries = {}, retry_count = 0 }, batch_to_process = {},
        is_timer_running = false, first_entry_t = 0, last_entry_t = 0, processed_entries = 0,
    }, of_processors)
end

function Processor:push(entry)
    if self.batch_max_size == 1 then
        schedule(0, process, self, { entries = { entry }, retry_count = 0 })
        return
    end
    local entries = self.entry_buffer.entries
    entries[#entries + 1] = entry
    self.last_entry_t = now()
    if #entries == 1 then
        self.first_entry_t = self.last_entry_t
    end
    if #entries >= self.batch_max_size then
        self:process_buffer()
    elseif not self.is_timer_running then
        wait(self)
    end
end

-- Begins the processing of all entries that are there.
function Processor:process_buffer()
    if #self.entry_buffer.entries > 0 then
        self.batch_to_process[#self.batch_to_process + 1] = self.entry_buffer
        self.entry_buffer = { entries = {}, retry_count = 0 }
    end
    local batches = self.batch_to_process
    self.batch_to_process = {}
    for _, batch in ipairs(batches) do
        if not schedule(0, process, self, batch) then
            self.processed_entries = self.processed_entries + #batch.entries
        end
    end
end

return Processor
