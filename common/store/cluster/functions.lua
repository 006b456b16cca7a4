#!lua name=countd1
local MAX, HALF, WORD = 2147483647, 2147483648, 4294967296
local NUL = '\0\0\0\0\0\0\0\0'
local function number(text) return tonumber(text or '0') end
local function decimal(n) return string.format('%.0f', n) end
local function mark(text)
  if not text then return 0, NUL end
  local high, low = struct.unpack('>I4I4', text)
  return high * WORD + low, string.sub(text, 9, 16)
end
local function count(text)
  if not text then return 0, 0, false end
  local high, low = struct.unpack('>i4I4', text)
  return high, low, #text == 9
end
local function member(high, low, key)
  return struct.pack('>I4I4', MAX - high, WORD - 1 - low) .. key
end
local function sum(text)
  if not text then return 0, 0 end
  local top, high, low = struct.unpack('>i4I4I4', text)
  return top * WORD + high, low
end
local function pack_sum(high, low)
  local carry = math.floor(low / WORD)
  high = high + carry
  local top = math.floor(high / WORD)
  return struct.pack('>i4I4I4', top, high - top * WORD, low - carry * WORD)
end
local function each_slice(list, size, call)
  for from = 1, #list, size do
    local to = math.min(from + size - 1, #list)
    call(unpack(list, from, to))
  end
end
-- Reads what every change needs: refuses it unless it follows the mark.
local function begin(keys, args)
  local me = '\0n' .. args[1]
  local head = redis.call('HMGET', keys[1], me, '\0k', '\0s', '\0f', '\0v', '\0w', '\0l')
  local have, digest = mark(head[1])
  if head[6] then return { 4 } end
  if have ~= tonumber(args[2]) then
    if have >= tonumber(args[4]) then return { 1, decimal(have), digest } end
    return { 2, decimal(have), digest }
  end
  if digest ~= args[3] then return { 5, decimal(have), digest } end
  local rows = number(head[2])
  if redis.call('ZCARD', keys[2]) ~= rows then return { 3, decimal(have), digest } end
  local high, low = sum(head[3])
  local senders = head[7] or ''
  if not head[1] then senders = senders .. args[1] end
  return nil, { rows = rows, high = high, low = low, flagged = number(head[4]),
    version = number(head[5]), me = me, senders = senders }
end
local function put_head(t, args, fields)
  local seq = tonumber(args[4])
  local high = math.floor(seq / WORD)
  fields[#fields + 1] = t.me
  fields[#fields + 1] = struct.pack('>I4I4', high, seq - high * WORD) .. args[5]
  fields[#fields + 1] = '\0k'
  fields[#fields + 1] = decimal(t.rows)
  fields[#fields + 1] = '\0s'
  fields[#fields + 1] = pack_sum(t.high, t.low)
  fields[#fields + 1] = '\0f'
  fields[#fields + 1] = decimal(t.flagged)
  fields[#fields + 1] = '\0v'
  fields[#fields + 1] = decimal(t.version + 1)
  fields[#fields + 1] = '\0l'
  fields[#fields + 1] = t.senders
end
local function values(keys, args, step)
  local names = {}
  for i = 6, #args, step do names[#names + 1] = args[i] end
  if #names == 0 then return names, {} end
  return names, redis.call('HMGET', keys[1], unpack(names))
end
-- sender, prev, its digest, seq, digest, then key and delta for each row.
local function apply(keys, args)
  local refused, t = begin(keys, args)
  if refused then return refused end
  local names, old = values(keys, args, 2)
  local fields, gone, add, created, saturated = {}, {}, {}, 0, 0
  for i = 1, #names do
    local high, low, flag = count(old[i])
    local dh, dm, dl = struct.unpack('>i4I4I4', args[2 * i + 5])
    local nh, nl, was = high + dh * WORD + dm, low + dl, flag
    if nl >= WORD then nh, nl = nh + 1, nl - WORD end
    if nh > MAX then nh, nl, flag = MAX, WORD - 1, true end
    if nh < -HALF then nh, nl, flag = -HALF, 0, true end
    if old[i] then gone[#gone + 1] = member(high, low, names[i]) else created = created + 1 end
    if flag and not was then saturated = saturated + 1 end
    t.high, t.low = t.high + nh - high, t.low + nl - low
    fields[#fields + 1] = names[i]
    fields[#fields + 1] = struct.pack('>i4I4', nh, nl) .. (flag and '\1' or '')
    add[#add + 1] = 0
    add[#add + 1] = member(nh, nl, names[i])
  end
  t.rows, t.flagged = t.rows + created, t.flagged + saturated
  put_head(t, args, fields)
  redis.call('HSET', keys[1], unpack(fields))
  if #gone > 0 then redis.call('ZREM', keys[2], unpack(gone)) end
  if #add > 0 then redis.call('ZADD', keys[2], unpack(add)) end
  return { 0, args[4], args[5], created, saturated }
end
-- As apply, with keys that are removed.
local function delete(keys, args)
  local refused, t = begin(keys, args)
  if refused then return refused end
  local names, old = values(keys, args, 1)
  local fields, gone, found = {}, {}, {}
  for i = 1, #names do
    if old[i] then
      local high, low, flag = count(old[i])
      found[#found + 1] = names[i]
      gone[#gone + 1] = member(high, low, names[i])
      t.high, t.low = t.high - high, t.low - low
      if flag then t.flagged = t.flagged - 1 end
    end
  end
  t.rows = t.rows - #found
  put_head(t, args, fields)
  redis.call('HSET', keys[1], unpack(fields))
  if #found > 0 then
    redis.call('HDEL', keys[1], unpack(found))
    redis.call('ZREM', keys[2], unpack(gone))
  end
  return { 0, args[4], args[5], #found, 0 }
end
-- Empties the part; the marks of all senders stay.
local function drop(keys, args)
  local refused, t = begin(keys, args)
  if refused then return refused end
  local fields = {}
  for i = 1, #t.senders, 8 do
    local name = '\0n' .. string.sub(t.senders, i, i + 7)
    local made = redis.call('HGET', keys[1], name)
    if made and name ~= t.me then
      fields[#fields + 1] = name
      fields[#fields + 1] = made
    end
  end
  local dropped = t.rows
  t.rows, t.high, t.low, t.flagged = 0, 0, 0, 0
  put_head(t, args, fields)
  redis.call('UNLINK', keys[1], keys[2])
  redis.call('HSET', keys[1], unpack(fields))
  return { 0, args[4], args[5], dropped, 0 }
end
-- Makes the order and the totals again from the counts.
local function rebuild(keys, args)
  local all = redis.call('HGETALL', keys[1])
  local add, rows, flagged, high, low = {}, 0, 0, 0, 0
  for i = 1, #all, 2 do
    if string.byte(all[i]) ~= 0 then
      local h, l, flag = count(all[i + 1])
      rows, high, low = rows + 1, high + h, low + l
      if low >= WORD then high, low = high + 1, low - WORD end
      if flag then flagged = flagged + 1 end
      add[#add + 1] = 0
      add[#add + 1] = member(h, l, all[i])
    end
  end
  redis.call('UNLINK', keys[2])
  each_slice(add, 4000, function(...) redis.call('ZADD', keys[2], ...) end)
  if #all > 0 then
    redis.call('HSET', keys[1], '\0k', decimal(rows), '\0s', pack_sum(high, low),
      '\0f', decimal(flagged))
    redis.call('HINCRBY', keys[1], '\0v', 1)
  end
  return rows
end
-- args: sender, number, digest: the part goes on behind that entry.
local function accept(keys, args)
  local me = '\0n' .. args[1]
  local head = redis.call('HMGET', keys[1], me, '\0l')
  local high = math.floor(tonumber(args[2]) / WORD)
  local list = head[2] or ''
  if not head[1] then list = list .. args[1] end
  redis.call('HSET', keys[1], me, struct.pack('>I4I4', high, tonumber(args[2]) - high * WORD) .. args[3],
    '\0l', list)
  return 0
end
-- The state of a part for a sender: its mark, rows, version.
local function state(keys, args)
  local head = redis.call('HMGET', keys[1], '\0n' .. args[1], '\0k', '\0v', '\0w')
  local have, digest = mark(head[1])
  return { decimal(have), digest, head[2] or '0', head[3] or '0',
    redis.call('ZCARD', keys[2]), head[4] and 1 or 0 }
end
-- Every answer to a reader begins with the version and the number of rows.
-- args: rank of the first row, below 0 from the end; how many.
local function rows(keys, args)
  local head = redis.call('HMGET', keys[1], '\0v', '\0k')
  local list, from, most = {}, tonumber(args[1]), tonumber(args[2])
  if from < 0 then from = math.max(0, number(head[2]) + from) end
  if from < number(head[2]) and most > 0 then
    list = redis.call('ZRANGE', keys[2], decimal(from), decimal(from + most - 1))
  end
  return { head[1] or '0', head[2] or '0', list }
end
-- args: rank from, rank to (not itself), how many: ranks evenly between.
local function sample(keys, args)
  local head = redis.call('HMGET', keys[1], '\0v', '\0k')
  local from, to, most = tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
  local ranks, list = {}, {}
  for i = 0, math.min(most, to - from) - 1 do
    local rank = decimal(from + math.floor((to - from) * i / math.min(most, to - from)))
    local found = redis.call('ZRANGE', keys[2], rank, rank)
    if found[1] then
      ranks[#ranks + 1] = rank
      list[#list + 1] = found[1]
    end
  end
  return { head[1] or '0', head[2] or '0', ranks, list }
end
-- args: key; answers its count, flag and rank, too.
local function get(keys, args)
  local head = redis.call('HMGET', keys[1], '\0v', '\0k', args[1])
  if not head[3] then return { head[1] or '0', head[2] or '0' } end
  local high, low, flag = count(head[3])
  local rank = redis.call('ZRANK', keys[2], member(high, low, args[1]))
  return { head[1] or '0', head[2] or '0', string.sub(head[3], 1, 8), flag and 1 or 0,
    rank or -1 }
end
-- args: member; how many rows stand before it.
local function before(keys, args)
  local head = redis.call('HMGET', keys[1], '\0v', '\0k')
  return { head[1] or '0', head[2] or '0', redis.call('ZLEXCOUNT', keys[2], '-', '(' .. args[1]) }
end
local function totals(keys, args)
  local head = redis.call('HMGET', keys[1], '\0v', '\0k', '\0s', '\0f')
  return { head[1] or '0', head[2] or '0', head[3] or string.rep('\0', 12), head[4] or '0' }
end
redis.register_function('countd1_apply', apply)
redis.register_function('countd1_delete', delete)
redis.register_function('countd1_drop', drop)
redis.register_function('countd1_rebuild', rebuild)
redis.register_function('countd1_accept', accept)
local function register_reading(name, call)
  redis.register_function{ function_name = name, callback = call, flags = { 'no-writes' } }
end
register_reading('countd1_state', state)
register_reading('countd1_rows', rows)
register_reading('countd1_sample', sample)
register_reading('countd1_get', get)
register_reading('countd1_before', before)
register_reading('countd1_totals', totals)
