-- table.clear: removes all entries.
return function(value)
    for key in pairs(value) do
        value[key] = nil
    end
end
