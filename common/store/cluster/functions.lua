#!lua name=countd1
-- Raised with each change of this text.  A library with a lower one is replaced,
-- so a function that is here stays, and goes on taking what it takes.
local REVISION = 1
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
-- The sorted set of a part's keys, if it has one: \0x is "1".
local function index_of(counts)
  local colon = string.find(counts, '}c:', 1, true)
  return string.sub(counts, 1, colon) .. 'k:' .. string.sub(counts, colon + 3)
end
local function each_slice(list, size, call)
  for from = 1, #list, size do
    local to = math.min(from + size - 1, #list)
    call(unpack(list, from, to))
  end
end
-- ---- closing ---------------------------------------------------------------
-- A part is closed for a while by who has a token: nothing is applied then.
-- The field has the token and until when, by the server's clock.
local CLOSED_MS = 10000
local function now_ms()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end
local function is_closed(text)
  if not text then return false end
  local high, low = struct.unpack('>I4I4', text, 9)
  return high * WORD + low > now_ms()
end
-- What closes a part for CLOSED_MS from now on.
local function closing(token)
  local till = now_ms() + CLOSED_MS
  local high = math.floor(till / WORD)
  return token .. struct.pack('>I4I4', high, till - high * WORD)
end
-- args: token, 1 to go on: closes the part, or keeps it closed.  1: another one
-- has closed it, or it was open meanwhile; 2: there is no such part.
local function close(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then return 2 end
  local held = redis.call('HGET', keys[1], '\0w')
  local is_own = is_closed(held) and string.sub(held, 1, 8) == args[1]
  if args[2] == '1' and not is_own then return 1 end
  if is_closed(held) and not is_own then return 1 end
  redis.call('HSET', keys[1], '\0w', closing(args[1]))
  return 0
end
-- args: token
local function open(keys, args)
  local held = redis.call('HGET', keys[1], '\0w')
  if held and string.sub(held, 1, 8) == args[1] then redis.call('HDEL', keys[1], '\0w') end
  return 0
end
-- ---- generations -----------------------------------------------------------
-- cluster_move.h says in which order these are called.  Each may come twice, or
-- late: a command whose connection broke is sent again.
local FOREVER = '\255\255\255\255\255\255\255\255'
local function is_gone(keys) return redis.call('HEXISTS', keys[1], '\0g') == 1 end
-- What is said of a keyspace, and the time.  args: name, what was said before
-- (empty: nothing), and what is said from now on.
local function place(keys, args)
  local is, done = redis.call('HGET', keys[1], args[1]) or '', 0
  if args[3] and is == args[2] then
    redis.call('HSET', keys[1], args[1], args[3])
    is, done = args[3], 1
  end
  return { done, is, decimal(now_ms()) }
end
-- Closes a part, which need not exist.  args: token.  1: another one has closed
-- it; 3: it is of an earlier generation.
local function hold(keys, args)
  local head = redis.call('HMGET', keys[1], '\0w', '\0v', '\0k', '\0s', '\0f', '\0x')
  if is_gone(keys) then return { 3 } end
  if is_closed(head[1]) and string.sub(head[1], 1, 8) ~= args[1] then return { 1 } end
  redis.call('HSET', keys[1], '\0w', closing(args[1]))
  return { 0, head[2] or '0', head[3] or '0', head[4] or string.rep('\0', 12), head[5] or '0',
    head[6] or '0' }
end
-- Closes a part for good that was closed with the token since it had this
-- version.  1: it was not.
local function seal(keys, args)
  local head = redis.call('HMGET', keys[1], '\0w', '\0v')
  if is_gone(keys) or not is_closed(head[1]) or string.sub(head[1], 1, 8) ~= args[1] or
    (head[2] or '0') ~= args[2] then
    return 1
  end
  redis.call('HSET', keys[1], '\0w', args[1] .. FOREVER)
  return 0
end
-- Makes a part for a mover.  args: token, version, 1: it has an order of keys.  1: it is another one's.
local function make(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then
    return redis.call('HGET', keys[1], '\0t') == args[1] and 0 or 1
  end
  redis.call('HSET', keys[1], '\0t', args[1], '\0v', args[2], '\0x', args[3],
    '\0k', '0', '\0f', '0')
  return 0
end
-- The fields that a hash has not; each once.
local function missing(key, args, from)
  local names, fields, seen = {}, {}, {}
  for i = from, #args, 2 do names[#names + 1] = args[i] end
  local old = redis.call('HMGET', key, unpack(names))
  for i = 1, #names do
    if not old[i] and not seen[names[i]] then
      seen[names[i]] = true
      fields[#fields + 1] = names[i]
      fields[#fields + 1] = args[from + 2 * i - 1]
    end
  end
  return fields
end
-- Adds rows, marks and the record of history that a part has not yet.  args:
-- token, then fields.
-- 1: the part is another mover's, or whole.
local function copy(keys, args)
  local head = redis.call('HMGET', keys[1], '\0t', '\0k', '\0s', '\0f', '\0x')
  if head[1] ~= args[1] then return 1 end
  local fields, add, index = missing(keys[1], args, 2), {}, {}
  local rows, flagged = number(head[2]), number(head[4])
  local high, low = sum(head[3])
  for i = 1, #fields, 2 do
    if string.byte(fields[i]) ~= 0 then
      local h, l, flag = count(fields[i + 1])
      rows, high, low = rows + 1, high + h, low + l
      if flag then flagged = flagged + 1 end
      add[#add + 1] = 0
      add[#add + 1] = member(h, l, fields[i])
      index[#index + 1] = 0
      index[#index + 1] = fields[i]
    end
  end
  if #fields == 0 then return 0 end
  redis.call('HSET', keys[1], '\0k', decimal(rows), '\0s', pack_sum(high, low),
    '\0f', decimal(flagged), unpack(fields))
  if #add > 0 then redis.call('ZADD', keys[2], unpack(add)) end
  if #add > 0 and head[5] == '1' then redis.call('ZADD', index_of(keys[1]), unpack(index)) end
  return 0
end
-- Ends the making of a part.  args: token.  1: it is another mover's.
local function finish(keys, args)
  local head = redis.call('HMGET', keys[1], '\0t', '\0k', '\0s', '\0f', '\0x')
  if not head[1] or string.sub(head[1], 1, 8) ~= args[1] then return { 1 } end
  redis.call('HSET', keys[1], '\0t', args[1] .. '\1')
  local places = redis.call('ZCARD', keys[2])
  if head[5] == '1' then places = math.min(places, redis.call('ZCARD', index_of(keys[1]))) end
  return { 0, head[2], head[3] or string.rep('\0', 12), head[4] or '0', places }
end
-- Reads what every change needs: refuses it unless it follows the mark.
local function begin(keys, args)
  local me = '\0n' .. args[1]
  local head = redis.call('HMGET', keys[1], me, '\0k', '\0s', '\0f', '\0v', '\0w', '\0l', '\0h', '\0x')
  local have, digest = mark(head[1])
  if is_closed(head[6]) then return { 4 } end
  if have ~= tonumber(args[2]) then
    if have >= tonumber(args[4]) then return { 1, decimal(have), digest } end
    return { 2, decimal(have), digest }
  end
  if digest ~= args[3] then return { 5, decimal(have), digest } end
  local rows, torn = number(head[2])
  local index = head[9] == '1' and index_of(keys[1])
  if redis.call('ZCARD', keys[2]) ~= rows or index and redis.call('ZCARD', index) ~= rows then
    torn = { 3, decimal(have), digest }
  end
  local high, low = sum(head[3])
  local senders = head[7] or ''
  if not head[1] then senders = senders .. args[1] end
  return torn, { rows = rows, high = high, low = low, flagged = number(head[4]),
    version = number(head[5]), me = me, senders = senders, history = head[8] or '', index = index }
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
  fields[#fields + 1] = '\0x'
  fields[#fields + 1] = t.index and '1' or '0'
  if t.history ~= '' then
    fields[#fields + 1] = '\0h'
    fields[#fields + 1] = t.history
  end
end
local function values(keys, names)
  if #names == 0 then return {} end
  return redis.call('HMGET', keys[1], unpack(names))
end
-- ---- history ---------------------------------------------------------------
-- A field of a period's hash: the sums of a key by step of the period, as
-- records: the sum in 1, 2, 4 or 12 bytes, then a byte with the size (upper two
-- bits) and the step.  A step may have several records: its sum is theirs.
local SIZES = { 1, 2, 4, 12 }
local FULL = 1024
-- The record that ends at byte `to`: its step, its sum, and where it begins.
local function unpack_cell(text, to)
  local tag = string.byte(text, to)
  local size = SIZES[math.floor(tag / 64) + 1]
  local at = to - size
  if size == 12 then
    local top, high, low = struct.unpack('>i4I4I4', text, at)
    return tag % 64, top * WORD + high, low, at
  end
  local low = struct.unpack(size == 4 and '>I4' or size == 2 and '>I2' or '>I1', text, at)
  return tag % 64, 0, low, at
end
local function pack_cell(cell, high, low)
  local carry = math.floor(low / WORD)
  high, low = high + carry, low - carry * WORD
  if high == 0 and low < 256 then return struct.pack('>I1I1', low, cell) end
  if high == 0 and low < 65536 then return struct.pack('>I2I1', low, 64 + cell) end
  if high == 0 then return struct.pack('>I4I1', low, 128 + cell) end
  local top = math.floor(high / WORD)
  return struct.pack('>i4I4I4I1', top, high - top * WORD, low, 192 + cell)
end
-- Adds what a field has, times `sign`, to the sums by step.
local function add_cells(sums, text, sign)
  local to = text and #text or 0
  while to > 0 do
    local cell, high, low, at = unpack_cell(text, to)
    local s = sums[cell] or { 0, 0 }
    sums[cell] = { s[1] + sign * high, s[2] + sign * low }
    to = at - 1
  end
end
local function pack_cells(sums)
  local list = {}
  for cell = 0, 63 do
    if sums[cell] then list[#list + 1] = pack_cell(cell, sums[cell][1], sums[cell][2]) end
  end
  return table.concat(list)
end
-- Most additions are to the last step, so a field is seldom read as a whole.
local function add_cell(text, cell, high, low)
  if text ~= '' then
    local last, h, l, at = unpack_cell(text, #text)
    if last == cell then
      text, high, low = string.sub(text, 1, at - 1), high + h, low + l
    end
  end
  if #text >= FULL then
    local sums = {}
    add_cells(sums, text, 1)
    text = pack_cells(sums)
  end
  return text .. pack_cell(cell, high, low)
end
-- The names of all history of a part that there can be: by the tiers of its
-- record, and two days around, as clocks differ.
local function history_keys(record, counts)
  local now = math.floor(tonumber(redis.call('TIME')[1]) / 60)
  local colon = string.find(counts, '}c:', 1, true)
  local tag, name, list = string.sub(counts, 1, colon), string.sub(counts, colon + 3), {}
  for at = 5, #record, 16 do
    local step, period, keep = struct.unpack('>I4I4I4', record, at)
    local first = math.floor(math.max(0, now - keep - 2880) / period) - 1
    for i = math.max(0, first), math.floor((now + 2880) / period) do
      list[#list + 1] = string.format('%sh:%.0f:%.0f:%.0f:%s', tag, step, period, i * period, name)
    end
  end
  return list
end
-- Adds fields of a period that it has not yet, and their sums to those of all
-- keys.  args: token, expiry, then fields.
local function copy_period(keys, args)
  if redis.call('HGET', keys[1], '\0t') ~= args[1] then return 1 end
  local fields, all = missing(keys[2], args, 3), {}
  if #fields == 0 then return 0 end
  add_cells(all, redis.call('HGET', keys[2], ''), 1)
  for i = 2, #fields, 2 do add_cells(all, fields[i], 1) end
  redis.call('HSET', keys[2], '', pack_cells(all), unpack(fields))
  redis.call('EXPIREAT', keys[2], args[2])
  return 0
end
-- Removes a part of an earlier generation; what is left says so.  Its history
-- stays a while for who is reading it.  args: parts and number of the next one.
local LINGER_S = 600
local function retire(keys, args)
  if is_gone(keys) then return 0 end
  for _, key in ipairs(history_keys(redis.call('HGET', keys[1], '\0h') or '', keys[1])) do
    redis.call('EXPIRE', key, LINGER_S, 'LT')
  end
  redis.call('UNLINK', keys[1], keys[2], index_of(keys[1]))
  redis.call('HSET', keys[1], '\0g', args[1], '\0w', NUL .. FOREVER)
  return 0
end
-- Removes a part that was made for a generation that never came.  args: token.
local function discard(keys, args)
  local held = redis.call('HGET', keys[1], '\0t')
  if not held or string.sub(held, 1, 8) ~= args[1] then return 0 end
  local past = history_keys(redis.call('HGET', keys[1], '\0h') or '', keys[1])
  each_slice(past, 4000, function(...) redis.call('UNLINK', ...) end)
  redis.call('UNLINK', keys[1], keys[2], index_of(keys[1]))
  return 0
end
-- Takes over the tiers of a sender: a record is the first minute that came,
-- then step, period, keep and the minute since which all is in, of each tier.
local function take_tiers(t, tiers, now, first)
  local record = t.history
  if tiers == '' then -- what comes now is missing from the tiers that there are
    for at = 17, #record, 16 do
      record = string.sub(record, 1, at - 1) .. struct.pack('>I4', now + 1) .. string.sub(record, at + 4)
    end
    t.history = record
    return
  end
  local had, list, began = {}, {}, struct.pack('>I4', t.rows == 0 and 0 or now)
  if first == 0 then -- as above
    first, began = now, struct.pack('>I4', now + 1)
  else
    for at = 5, #record, 16 do
      had[string.sub(record, at, at + 7)] = string.sub(record, at + 12, at + 15)
    end
  end
  local oldest = record ~= '' and struct.unpack('>I4', record) or first
  for at = 1, #tiers, 12 do
    local tier = string.sub(tiers, at, at + 11)
    list[#list + 1] = tier .. (had[string.sub(tier, 1, 8)] or began)
  end
  t.history = struct.pack('>I4', math.min(oldest, first)) .. table.concat(list)
end
-- Reads the fields that a section adds to, and adds: expiry u32, then for each
-- sum: row u16 (0: all keys), step u8, the sum in 12 bytes.
local function read_section(key, text, names)
  local fields, at, last, f = {}, {}, -1, {}
  for i = 5, #text, 15 do
    local row = struct.unpack('>I2', text, i)
    if row ~= last then fields[#fields + 1] = row == 0 and '' or names[row] end
    last = row
    at[#at + 1] = #fields
  end
  local old = redis.call('HMGET', key, unpack(fields))
  for i = 1, #fields do
    f[2 * i - 1] = fields[i]
    f[2 * i] = old[i] or ''
  end
  for i = 1, #at do
    local _, cell, top, high, low = struct.unpack('>I2I1i4I4I4', text, 15 * i - 10)
    f[2 * at[i]] = add_cell(f[2 * at[i]], cell, top * WORD + high, low)
  end
  return { key = key, fields = f, expiry = struct.unpack('>I4', text) }
end
-- ---- changes ---------------------------------------------------------------
-- sender, prev, its digest, seq, digest, rows, most rows of the part (0: any),
-- tiers, now and the first minute (0: of some rows no history is kept), then key and delta of each row, then a
-- section for each further key, then "1": a part without rows gets an order of keys.
local function apply(keys, args)
  local refused, t = begin(keys, args)
  if refused then return refused end
  local names = {}
  for i = 1, tonumber(args[6]) do names[i] = args[9 + 2 * i] end
  local old, sections = values(keys, names), {}
  for i = 3, #keys do
    sections[#sections + 1] = read_section(keys[i], args[8 + 2 * #names + i], names)
  end
  local fields, gone, add, new, created, saturated = {}, {}, {}, {}, 0, 0
  for i = 1, #names do if not old[i] then created = created + 1 end end
  local most = tonumber(args[7])
  if most > 0 and created > 0 and t.rows + created > most then
    return { 6, args[2], args[3] }
  end
  if t.rows == 0 then t.index = args[9 + 2 * #names + #keys] == '1' and index_of(keys[1]) end
  take_tiers(t, args[8], tonumber(args[9]), tonumber(args[10]))
  for i = 1, #names do
    local high, low, flag = count(old[i])
    local dh, dm, dl = struct.unpack('>i4I4I4', args[2 * i + 10])
    local nh, nl, was = high + dh * WORD + dm, low + dl, flag
    if nl >= WORD then nh, nl = nh + 1, nl - WORD end
    if nh > MAX then nh, nl, flag = MAX, WORD - 1, true end
    if nh < -HALF then nh, nl, flag = -HALF, 0, true end
    if old[i] then
      gone[#gone + 1] = member(high, low, names[i])
    else
      new[#new + 1] = 0
      new[#new + 1] = names[i]
    end
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
  if t.index and #new > 0 then redis.call('ZADD', t.index, unpack(new)) end
  for _, section in ipairs(sections) do
    redis.call('HSET', section.key, unpack(section.fields))
    redis.call('EXPIREAT', section.key, decimal(section.expiry))
  end
  return { 0, args[4], args[5], created, saturated }
end
-- Takes keys out of a period, and their sums out of those of all keys.
local function erase(key, names, old)
  local all, found = redis.call('HGET', key, ''), {}
  local sums = {}
  add_cells(sums, all, 1)
  for i = 1, #names do
    if old[i] then
      add_cells(sums, old[i], -1)
      found[#found + 1] = names[i]
    end
  end
  if #found == 0 then return end
  redis.call('HSET', key, '', pack_cells(sums))
  redis.call('HDEL', key, unpack(found))
end
-- As apply, with keys that are removed.
local function delete(keys, args)
  local refused, t = begin(keys, args)
  if refused then return refused end
  local names = {}
  for i = 6, #args do names[#names + 1] = args[i] end
  local old, past = values(keys, names), {}
  for _, key in ipairs(#names > 0 and history_keys(t.history, keys[1]) or {}) do
    if redis.call('EXISTS', key) == 1 then
      past[#past + 1] = { key, redis.call('HMGET', key, unpack(names)) }
    end
  end
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
    if t.index then redis.call('ZREM', t.index, unpack(found)) end
  end
  for _, p in ipairs(past) do erase(p[1], names, p[2]) end
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
  local past = history_keys(t.history, keys[1])
  for i = 1, #past do redis.call('EXISTS', past[i]) end
  t.rows, t.high, t.low, t.flagged, t.history = 0, 0, 0, 0, ''
  put_head(t, args, fields)
  redis.call('UNLINK', keys[1], keys[2], index_of(keys[1]))
  each_slice(past, 4000, function(...) redis.call('UNLINK', ...) end)
  redis.call('HSET', keys[1], unpack(fields))
  return { 0, args[4], args[5], dropped, 0 }
end
-- Makes the orders and the totals again from the counts, in slices, with the part
-- closed: in keys of their own that take the orders' places at the end.
-- args: token, about how many rows.  Answers 0: there is more; 1: all is done;
-- 2: another one has closed the part.  The field has the token, rows, flagged,
-- their sum and the cursor.
local function rebuild(keys, args)
  local state = redis.call('HMGET', keys[1], '\0w', '\0r', '\0x')
  local closed, own = is_closed(state[1]), args[1]
  if closed and string.sub(state[1], 1, 8) ~= own then return { 2 } end
  local colon = string.find(keys[2], '}z:', 1, true)
  local new = string.sub(keys[2], 1, colon) .. 'y:' .. string.sub(keys[2], colon + 3)
  local new_index = string.sub(keys[2], 1, colon) .. 'x:' .. string.sub(keys[2], colon + 3)
  local index = state[3] == '1' and index_of(keys[1])
  local rows, flagged, high, low, cursor = 0, 0, 0, 0, '0'
  if closed and state[2] and string.sub(state[2], 1, 8) == own then
    rows, flagged = struct.unpack('>I4I4', state[2], 9)
    high, low = sum(string.sub(state[2], 17, 28))
    cursor = string.sub(state[2], 29)
  else
    redis.call('UNLINK', new, new_index)
  end
  local found = redis.call('HSCAN', keys[1], cursor, 'COUNT', args[2])
  for i = 1, #found[2], 2 do
    local key = found[2][i]
    if string.byte(key) ~= 0 then
      local h, l, flag = count(found[2][i + 1])
      if index then redis.call('ZADD', new_index, 0, key) end
      -- The cursor may give a row twice.
      if redis.call('ZADD', new, 0, member(h, l, key)) == 1 then
        rows, high, low = rows + 1, high + h, low + l
        if flag then flagged = flagged + 1 end
      end
    end
  end
  if found[1] ~= '0' then
    redis.call('HSET', keys[1], '\0w', closing(own), '\0r', own ..
      struct.pack('>I4I4', rows, flagged) .. pack_sum(high, low) .. found[1])
    return { 0, rows }
  end
  if rows > 0 then redis.call('RENAME', new, keys[2]) else redis.call('UNLINK', keys[2]) end
  if index and rows > 0 then redis.call('RENAME', new_index, index)
  else redis.call('UNLINK', index_of(keys[1])) end
  redis.call('HDEL', keys[1], '\0w', '\0r')
  if redis.call('EXISTS', keys[1]) == 1 then
    redis.call('HSET', keys[1], '\0k', decimal(rows), '\0s', pack_sum(high, low),
      '\0f', decimal(flagged))
    redis.call('HINCRBY', keys[1], '\0v', 1)
  end
  return { 1, rows }
end
-- The sum of a field's steps from `from` to `to`; nil without one.
local function sum_cells(text, from, to)
  local end_at, high, low, any = text and #text or 0, 0, 0, false
  while end_at > 0 do
    local cell, h, l, at = unpack_cell(text, end_at)
    if cell >= from and cell <= to then high, low, any = high + h, low + l, true end
    end_at = at - 1
  end
  return any, high, low
end
-- The periods of the coarsest tier from which nothing is missing: the counts are
-- their sums.  nil: there is no such tier.
local function whole_history(record, counts)
  local now = math.floor(tonumber(redis.call('TIME')[1]) / 60)
  local colon = string.find(counts, '}c:', 1, true)
  local tag, name, list = string.sub(counts, 1, colon), string.sub(counts, colon + 3)
  for at = 5, #record, 16 do
    local step, period, keep, began = struct.unpack('>I4I4I4I4', record, at)
    local first = struct.unpack('>I4', record)
    if began == 0 and first >= now - keep then
      list = {}
      for i = math.floor(first / period), math.floor((now + 2880) / period) do
        local key = string.format('%sh:%.0f:%.0f:%.0f:%s', tag, step, period, i * period, name)
        if redis.call('EXISTS', key) == 1 then list[#list + 1] = key end
      end
    end
  end
  return list
end
-- Calls `differs` with each of these keys whose count is not the sum of its
-- history.
local function compare_history(keys, names, texts, differs)
  local sums, periods = {}, whole_history(redis.call('HGET', keys[1], '\0h') or '', keys[1])
  if not periods then return end
  for _, period in ipairs(periods) do
    for i, text in ipairs(redis.call('HMGET', period, unpack(names))) do
      local _, high, low = sum_cells(text, 0, 63)
      local s = sums[i] or { 0, 0 }
      sums[i] = { s[1] + high, s[2] + low }
    end
  end
  for i, s in pairs(sums) do
    local high, low, flag = count(texts[i])
    if not flag and pack_sum(s[1], s[2]) ~= pack_sum(high, low) then differs(names[i]) end
  end
end
-- Compares rows with their places in the orders, and with history.  args: cursor,
-- about how many rows.  Answers the version, the next cursor, rows, flagged,
-- their sum, how many have no place, how many differ from history, and one of
-- these two.
local function verify(keys, args)
  local found = redis.call('HSCAN', keys[1], args[1], 'COUNT', args[2])
  local index = redis.call('HGET', keys[1], '\0x') == '1' and index_of(keys[1])
  local flagged, high, low, missing, differing, which = 0, 0, 0, 0, 0, ''
  local names, texts = {}, {}
  for i = 1, #found[2], 2 do
    local key = found[2][i]
    if string.byte(key) ~= 0 then
      local h, l, flag = count(found[2][i + 1])
      names[#names + 1], texts[#texts + 1] = key, found[2][i + 1]
      high, low = high + h, low + l
      if flag then flagged = flagged + 1 end
      if not redis.call('ZSCORE', keys[2], member(h, l, key)) or
        index and not redis.call('ZSCORE', index, key) then missing, which = missing + 1, key end
    end
  end
  if #names > 0 and #names < 8000 then
    compare_history(keys, names, texts, function(key) differing, which = differing + 1, key end)
  end
  return { redis.call('HGET', keys[1], '\0v') or '0', found[1], #names, flagged,
    pack_sum(high, low), missing, differing, which }
end
-- The keys of history that a part has, and when they expire.
local function periods(keys, args)
  local record, list = redis.call('HGET', keys[1], '\0h') or '', {}
  for _, key in ipairs(history_keys(record, keys[1])) do
    local expiry = redis.call('EXPIRETIME', key)
    if expiry ~= -2 then
      list[#list + 1] = key
      list[#list + 1] = decimal(expiry)
    end
  end
  return list
end
-- Gives a part, which must not exist, the counts of keys[3].  1: it exists.
local function restore(keys, args)
  if redis.call('EXISTS', keys[1]) == 1 then return 1 end
  redis.call('HDEL', keys[3], '\0w', '\0r')
  redis.call('RENAME', keys[3], keys[1])
  return 0
end
-- As apply, but brings nothing: the entries between are lost.  A torn part is
-- made again when the next one comes.
local function accept(keys, args)
  local refused, t = begin(keys, args)
  if refused and refused[1] ~= 3 then return refused end
  local fields = {}
  put_head(t, args, fields)
  redis.call('HSET', keys[1], unpack(fields))
  return { 0, args[4], args[5] }
end
-- The state of a part for a sender: its mark, rows, version, and members of its
-- order: of the order of keys where these are not as many as rows.
local function state(keys, args)
  local head = redis.call('HMGET', keys[1], '\0n' .. args[1], '\0k', '\0v', '\0w', '\0x')
  local places = redis.call('ZCARD', keys[2])
  local indexed = head[5] == '1' and redis.call('ZCARD', index_of(keys[1]))
  if indexed and indexed ~= number(head[2]) then places = indexed end
  local have, digest = mark(head[1])
  return { decimal(have), digest, head[2] or '0', head[3] or '0',
    places, is_gone(keys) and 2 or is_closed(head[4]) and 1 or 0 }
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
-- With the order of keys in keys[2].  args: limits as of ZLEXCOUNT of the keys
-- before the first that is wanted, and of those up to the last; rank of the
-- first; how many.  Answers its rank, below 0 without such an order, and rows.
local function keys_of(keys, args)
  local head = redis.call('HMGET', keys[1], '\0v', '\0k', '\0x')
  local answer = { head[1] or '0', head[2] or '0', 0, {} }
  if number(head[2]) == 0 then return answer end
  if head[3] ~= '1' then answer[3] = -1 return answer end
  local from = math.max(tonumber(args[3]), redis.call('ZLEXCOUNT', keys[2], '-', args[1]))
  local to = math.min(redis.call('ZLEXCOUNT', keys[2], '-', args[2]), from + tonumber(args[4]))
  answer[3] = from
  if from >= to then return answer end
  each_slice(redis.call('ZRANGE', keys[2], decimal(from), decimal(to - 1)), 4000, function(...)
    local names, list = { ... }, answer[4]
    for i, text in ipairs(values(keys, names)) do
      local high, low = count(text)
      list[#list + 1] = member(high, low, names[i])
    end
  end)
  return answer
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
-- Sums of keys over the periods keys[2..], of which `ranges` has the first and
-- last step in a byte each.  Calls `found` with those that have any.
local function sum_keys(keys, ranges, names, found)
  local sums = {}
  for p = 2, #keys do
    local from, to = string.byte(ranges, 2 * p - 3, 2 * p - 2)
    local old = #names > 0 and redis.call('HMGET', keys[p], unpack(names)) or {}
    for i = 1, #names do
      local any, high, low = sum_cells(old[i], from, to)
      if any then
        local s = sums[i] or { 0, 0 }
        sums[i] = { s[1] + high, s[2] + low }
      end
    end
  end
  for i = 1, #names do
    if sums[i] then found(names[i], pack_sum(sums[i][1], sums[i][2])) end
  end
end
-- args: ranges, then keys: answers each that has any, and its sum.
local function sums(keys, args)
  local names, list = {}, {}
  for i = 2, #args do names[#names + 1] = args[i] end
  sum_keys(keys, args[1], names, function(name, sum)
    list[#list + 1] = name
    list[#list + 1] = sum
  end)
  return list
end
-- args: ranges, cursor, about how many keys: answers the next cursor ("0" at the
-- end), then keys and sums.  A key may come twice while the part grows.
local function scan(keys, args)
  local found = redis.call('HSCAN', keys[1], args[2], 'COUNT', args[3])
  local names, list = {}, { found[1] }
  for i = 1, #found[2], 2 do
    if string.byte(found[2][i]) ~= 0 then names[#names + 1] = found[2][i] end
  end
  for from = 1, #names, 4000 do
    local some = {}
    for i = from, math.min(from + 3999, #names) do some[#some + 1] = names[i] end
    sum_keys(keys, args[1], some, function(name, sum)
      list[#list + 1] = name
      list[#list + 1] = sum
    end)
  end
  return list
end
redis.register_function('countd1_apply', apply)
redis.register_function('countd1_delete', delete)
redis.register_function('countd1_drop', drop)
redis.register_function('countd1_rebuild', rebuild)
redis.register_function('countd1_accept', accept)
redis.register_function('countd1_close', close)
redis.register_function('countd1_open', open)
redis.register_function('countd1_restore', restore)
redis.register_function('countd1_place', place)
redis.register_function('countd1_hold', hold)
redis.register_function('countd1_seal', seal)
redis.register_function('countd1_make', make)
redis.register_function('countd1_copy', copy)
redis.register_function('countd1_copy_period', copy_period)
redis.register_function('countd1_finish', finish)
redis.register_function('countd1_retire', retire)
redis.register_function('countd1_discard', discard)
local function register_reading(name, call)
  redis.register_function{ function_name = name, callback = call, flags = { 'no-writes' } }
end
register_reading('countd1_revision', function() return REVISION end)
register_reading('countd1_state', state)
-- A reader that does not know of another generation yet is told.
local function register_answer(name, call)
  register_reading(name, function(keys, args)
    if is_gone(keys) then return redis.error_reply('GONE the part is of an earlier generation') end
    return call(keys, args)
  end)
end
register_answer('countd1_rows', rows)
register_answer('countd1_keys', keys_of)
register_answer('countd1_sample', sample)
register_answer('countd1_get', get)
register_answer('countd1_before', before)
register_answer('countd1_totals', totals)
register_answer('countd1_verify', verify)
register_answer('countd1_periods', periods)
register_answer('countd1_sums', sums)
register_answer('countd1_scan', scan)
