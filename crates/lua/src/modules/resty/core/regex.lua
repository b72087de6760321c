-- resty.core.regex: settings of the cache of patterns, which the gateway keeps by itself.
return {
    version = "0.1.29",
    set_buf_grow_ratio = function() end,
    is_regex_cache_empty = function() return false end,
}
