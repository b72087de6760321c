-- ngx.errlog: the level of the log, and lines for it.
local _, native = ...

return native.complete("ngx.errlog", {
    version = "0.1.29",
    get_sys_filter_level = native.log_level,
    raw_log = function(level, text) return ngx.log(level, text) end,
    set_filter_level = function() return nil, "not available in Weir: a level of the log for scripts" end,
})
