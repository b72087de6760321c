-- table.nkeys: the number of entries.
return function(value)
    local count = 0
    for _ in pairs(value) do
        count = count + 1
    end
    return count
end
