// Reads the data of a timeline (report/html/timeline_data.cpp writes it): streams of numbers of seven bits a byte, the
// lowest first, in base 64; a number that may be negative is twice itself, or twice its distance below -1 plus one.
// Gives rows their boxes, lanes and memory, groups their shares, and returns the chain. Times are nanoseconds.
const cplabRead = data => {
  'use strict';
  function stream(text) {
    const raw = atob(text);
    let at = 0;
    const next = () => {
      let value = 0, scale = 1, byte;
      do {
        byte = raw.charCodeAt(at++);
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte & 128);
      return value;
    };
    const signed = () => {
      const n = next();
      return n % 2 ? -(n + 1) / 2 : n / 2;
    };
    return {more: () => at < raw.length, next, signed, byte: () => raw.charCodeAt(at++)};
  }

  function readBoxes(row) {
    const boxes = [], lanes = new Map(), ordinals = {}, free = {}, from = stream(row.boxes);
    let step = 0;
    while (from.more()) {
      const [lane, phase, kind, variant, origin, use] = data.signatures[from.next()];
      const ordinal = (ordinals[phase] || 0) + from.signed();
      ordinals[phase] = ordinal + 1;
      step += from.signed();
      const bytes = data.numbers[from.next()], flops = data.numbers[from.next()];
      const start = (free[lane] || 0) + from.signed(), end = start + from.next(), wait = from.next();
      free[lane] = end;
      const box = {row, lane, phase, kind, variant, origin, use, ordinal, step, bytes, flops, start, end, wait};
      box.id = phase ? `${row.rank}/${phase}/${ordinal}` : kind;
      boxes.push(box);
      if (!lanes.has(lane)) lanes.set(lane, []);
      lanes.get(lane).push(box);
    }
    for (const lane of lanes.values()) lane.sort((a, b) => a.start - b.start);
    row.all = boxes;
    row.lanes = [...lanes].sort((a, b) => order(a[0]) - order(b[0]) || a[0] - b[0]);
  }
  const order = lane => ['compute', 'copy', 'comm', 'stream', 'host'].findIndex(k => data.lanes[lane].startsWith(k));

  function readMemory(row) {
    row.levels = [];
    const from = stream(row.memory), live = data.categories.map(() => 0);
    let at = 0;
    while (from.more()) {
      at += from.signed();
      const category = from.next(), place = from.next();
      live[category] += data.numbers[Math.floor(place / 2)] * (place % 2 ? -1 : 1);
      const last = row.levels[row.levels.length - 1];
      if (last && last.at === at) last.live = live.slice();
      else row.levels.push({at, live: live.slice()});
    }
    row.most = row.levels.reduce((most, level) => Math.max(most, level.live.reduce((a, b) => a + b, 0)), 0);
  }

  for (const row of data.rows) {
    readBoxes(row);
    readMemory(row);
  }
  for (const group of data.groups) {
    const from = stream(group.shares);
    group.bins = [];
    while (from.more()) group.bins.push([from.byte() / 255, from.byte() / 255, from.byte() / 255]);
  }
  const chain = [];
  for (let from = stream(data.chain), rank = 0, at = 0; from.more();) {
    rank += from.signed();
    const place = from.next(), end = at + from.next();
    chain.push({rank, operation: Math.floor(place / 2), host: place % 2 === 1, begin: at, end});
    at = end;
  }
  return chain;
};
