-- table.isempty: whether there is no entry.
return function(value)
    return next(value) == nil
end
