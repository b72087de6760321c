-- table.isarray: whether the keys are 1, 2, 3 and so on; an empty table is an array.
return function(value)
    local count = 0
    for key in pairs(value) do
        if type(key) ~= "number" then
            return false
        end
        count = count + 1
    end
    return count == 0 or value[count] ~= nil
end
