-- table.clone: a copy of the entries, not of the tables inside.
return function(value)
    local copy = {}
    for key, item in pairs(value) do
        copy[key] = item
    end
    return copy
end
