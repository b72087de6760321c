-- apisix.core.io: scripts have no files, so that each reading fails with a reason.
return {
    get_file = function(name)
        return nil, "not available in Weir: files (" .. tostring(name) .. ")"
    end,
}
