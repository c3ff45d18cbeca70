// The timeline of a page: lanes of every rank on a canvas, memory of one rank beneath on the same axis, the chain that
// determines the end over it. Reads the element #timeline-data (report/html/timeline_data.cpp); times are nanoseconds.
(() => {
  'use strict';
  const source = document.getElementById('timeline-data');
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const element = id => document.getElementById(id);
  const canvas = element('timeline'), memory = element('memory'), tip = element('tip'), picked = element('picked');
  const USES = ['attention', 'kernel', 'communication', 'host'];
  const GUTTER = 148, AXIS = 24, LANE = 18, THIN = 12, GAP = 6, GROUP = 14, MEMORY = 96;
  const END = Math.max(1, data.end_ns);
  const view = {from: 0, to: END};
  let items = [], height = 0, colors = {}, hits = null, hit = -1, chosen = null, memoryRow = 0, chainShown = true;

  const chain = cplabRead(data);
  const rowOf = rank => data.rows.find(row => row.rank === rank && row.side === 0);

  // ---- where things lie ----
  function layOut() {
    items = [];
    let y = AXIS;
    const two = data.sides.length > 1;
    for (const row of data.rows) {
      if (row.open) {
        row.lanes.forEach(([lane, boxes], n) => {
          items.push({row, lane, boxes, y, h: LANE, first: n === 0, second: n === 1});
          y += LANE + 1;
        });
      } else {
        items.push({row, boxes: row.all, y, h: THIN, first: true});
        y += THIN;
      }
      y += two && row.side === 0 ? 1 : row.open ? GAP : 2;
    }
    if (data.groups.length) y += GAP;
    for (const group of data.groups) {
      items.push({group, y, h: GROUP});
      y += GROUP + (two && group.side === 0 ? 0 : 2);
    }
    height = y + 4;
    placeChain();
    const width = canvas.parentElement.clientWidth;
    for (const [c, h] of [[canvas, height], [memory, MEMORY + AXIS]]) {
      const ratio = window.devicePixelRatio || 1;
      c.style.height = h + 'px';
      c.width = Math.round(width * ratio);
      c.height = Math.round(h * ratio);
      c.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    memory.hidden = !data.rows.some(row => row.levels.length);
    draw();
  }
  // Each step of the chain lies on its operation's lane, or on the group that its rank is in.
  function placeChain() {
    for (const step of chain) {
      const row = rowOf(step.rank), box = row && row.all[step.operation];
      const item = box ? items.find(i => i.row === row && (i.lane === undefined || i.lane === box.lane))
        : items.find(i => i.group && i.group.side === 0 && i.group.first <= step.rank && i.group.last >= step.rank);
      step.y = item ? item.y + item.h - 2.5 : null;
    }
  }
  const width = () => canvas.parentElement.clientWidth;
  const x = ns => GUTTER + (ns - view.from) / (view.to - view.from) * (width() - GUTTER - 8);
  const timeAt = px => view.from + (px - GUTTER) / (width() - GUTTER - 8) * (view.to - view.from);

  // ---- words ----
  const digits = (n, d = 3) => n.toLocaleString('en-US', {minimumFractionDigits: d, maximumFractionDigits: d});
  function duration(ns) {
    const size = Math.abs(ns);
    return size >= 1e10 ? digits(ns / 1e9) + ' s' : size >= 1e6 ? digits(ns / 1e6) + ' ms' : digits(ns / 1e3) + ' µs';
  }
  function scaled(value, base, names) {
    let n = 0;
    while (Math.abs(value) >= base && n < names.length - 1) {
      value /= base;
      ++n;
    }
    return digits(value, n ? 2 : 0) + ' ' + names[n];
  }
  const bytesText = b => scaled(b, 1024, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']);
  const flopsText = f => scaled(f, 1000, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP']);

  function lines(box) {
    const seconds = (box.end - box.start) / 1e9, moved = seconds - box.wait / 1e9, side = data.sides[box.row.side];
    const all = [[box.id, [side, data.lanes[box.lane]].filter(Boolean).join(', ')]];
    if (box.phase) all.push(['what', data.steps ? `${box.kind}, step ${box.step}` : box.kind]);
    if (box.variant) all.push(['by', box.variant]);
    all.push(['start', duration(box.start)], ['end', duration(box.end)], ['lasts', duration(box.end - box.start)]);
    if (box.wait) all.push(['waits', duration(box.wait) + ' for peers']);
    if (box.bytes) {
      const rate = box.use === 2 && moved > 0 ? ` at ${digits(box.bytes / moved / 1e9, 1)} GB/s` : '';
      all.push([box.use === 2 ? 'sends' : 'reads, writes', bytesText(box.bytes) + rate]);
    }
    if (box.flops) all.push(['work', flopsText(box.flops) + (seconds > 0 ? ` at ${digits(box.flops / seconds / 1e12, 1)} TFLOP/s` : '')]);
    if (box.origin) all.push(['time is', box.origin]);
    if (onChain(box)) all.push(['', 'on the critical path']);
    return all;
  }
  const onChain = box => box.row.side === 0 && chain.some(s => !s.host && s.rank === box.row.rank && box.row.all[s.operation] === box);

  function describe(into, all) {
    into.textContent = '';
    for (const [name, text] of all) {
      const line = document.createElement('div');
      const head = document.createElement('b');
      head.textContent = name;
      line.append(head, ' ' + text);
      into.append(line);
    }
  }

  // ---- drawing ----
  function ticks() {
    const rough = (view.to - view.from) / Math.max(2, (width() - GUTTER) / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
    const all = [];
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) all.push(t);
    const unit = step >= 1e9 ? [1e9, 's'] : step >= 1e6 ? [1e6, 'ms'] : step >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
    const places = Math.max(0, -Math.floor(Math.log10(step / unit[0]) + 1e-9));
    return all.map(t => [t, digits(t / unit[0], Math.min(places, 6)) + ' ' + unit[1]]);
  }

  function drawAxis(context, y, top, bottom) {
    context.textAlign = 'center';
    for (const [t, text] of ticks()) {
      context.fillStyle = colors.grid;
      context.fillRect(Math.round(x(t)), top, 1, bottom - top);
      context.fillStyle = colors.soft;
      if (x(t) > GUTTER + 20 && x(t) < width() - 24) context.fillText(text, x(t), y);
    }
  }

  function hatch(context, left, top, w, h) {
    context.save();
    context.beginPath();
    context.rect(left, top, w, h);
    context.clip();
    context.fillStyle = colors.paper;
    context.fillRect(left, top, w, h);
    context.strokeStyle = colors.communication;
    context.lineWidth = 1;
    context.beginPath();
    for (let at = Math.floor((left - h) / 5) * 5; at < left + w; at += 5) {
      context.moveTo(at, top + h);
      context.lineTo(at + h, top);
    }
    context.stroke();
    context.strokeRect(left + 0.5, top + 0.5, Math.max(0, w - 1), h - 1);
    context.restore();
  }

  function drawBox(context, box, top, h) {
    const left = Math.max(GUTTER, x(box.start)), right = Math.min(width() - 8, x(box.end));
    const middle = Math.min(right, Math.max(left, x(box.start + box.wait)));
    context.globalAlpha = hits && !hits.set.has(box) ? 0.18 : 1;
    if (middle - left > 1) hatch(context, left, top, middle - left, h);
    const begin = middle - left > 1 ? middle : left, w = Math.max(right - begin, 0.7);
    context.fillStyle = colors[USES[box.use] + (box.phase === 'backward' && box.use === 0 ? '-back' : '')];
    context.fillRect(begin, top, w > 3 ? w - 0.6 : w, h);
    const kind = box.kind.replace('attend_backward', 'attend'), text = box.phase && data.steps ? `${kind} ${box.step}` : kind;
    if (h >= LANE && w > 26) {
      context.save();
      context.beginPath();
      context.rect(begin, top, w - 2, h);
      context.clip();
      context.fillStyle = box.use === 2 ? colors['on-communication'] : colors['on-attention'];
      context.textAlign = 'left';
      context.fillText(w > 7 * text.length || !data.steps ? text : String(box.step), begin + 4, top + h / 2 + 4);
      context.restore();
    }
    if (box === chosen) {
      context.strokeStyle = colors.ink;
      context.lineWidth = 2;
      context.strokeRect(left + 1, top + 1, Math.max(2, right - left - 2), h - 2);
    }
    context.globalAlpha = 1;
  }

  // Boxes that would lie on one pixel are drawn once.
  function drawBoxes(context, item) {
    const lastAt = {};
    for (const box of item.boxes) {
      if (box.end < view.from || box.start > view.to) continue;
      const communicates = box.use === 2, half = item.h / 2;
      const right = x(box.end), key = item.lane === undefined ? communicates : 0;
      if (right - (lastAt[key] ?? -9) < 0.5 && box !== chosen && !(hits && hits.set.has(box))) continue;
      lastAt[key] = right;
      if (item.lane !== undefined) drawBox(context, box, item.y, item.h);
      else if (box.use !== 3) drawBox(context, box, item.y + (communicates ? half : 0), half - 0.5);
    }
  }

  function drawGroup(context, item) {
    const bins = item.group.bins;
    bins.forEach((shares, n) => {
      const left = Math.max(GUTTER, x(n / bins.length * END)), right = Math.min(width() - 8, x((n + 1) / bins.length * END));
      if (right <= left) return;
      let y = item.y + item.h;
      [['attention', shares[0]], ['communication', shares[1]], ['wait', shares[2]]].forEach(([use, share]) => {
        context.fillStyle = colors[use];
        context.fillRect(left, y - share * item.h, right - left + 0.3, share * item.h);
        y -= share * item.h;
      });
    });
  }

  function drawChain(context) {
    if (!chainShown || !chain.length) return;
    context.save();
    context.beginPath();
    context.rect(GUTTER, AXIS, width() - GUTTER - 8, height);
    context.clip();
    context.strokeStyle = colors.chain;
    context.lineJoin = 'round';
    let before = null;
    for (const step of chain) {
      const y = step.y;
      if (y === null) continue;
      if (step.end >= view.from && step.begin <= view.to) {
        context.lineWidth = step.host ? 1.5 : 3.5;
        context.setLineDash(step.host ? [2, 2] : []);
        context.beginPath();
        if (before !== null && before !== y) context.moveTo(x(step.begin), before);
        else context.moveTo(x(step.begin), y);
        context.lineTo(x(step.begin), y);
        context.lineTo(x(step.end), y);
        context.stroke();
      }
      before = y;
    }
    context.restore();
  }

  function drawLabels(context, item) {
    context.textAlign = 'left';
    const source = item.row || item.group;
    const side = data.sides.length > 1 ? data.sides[source.side] : '';
    if (item.row && item.row === data.rows[memoryRow] && item.row.levels.length) {
      context.fillStyle = colors.accent;
      context.fillRect(0, item.y, 3, item.h);
    }
    context.fillStyle = item.first || item.group ? colors.ink : colors.soft;
    if (item.group) context.fillText(side ? `${item.group.label}, ${side}` : item.group.label, 8, item.y + item.h - 3);
    else if (item.first || item.second) {
      const [name, role] = item.row.label.split(', ');
      const words = item.row.open ? (item.first ? `${name} ${side}` : role || '') : `${item.row.label} ${side}`;
      context.fillText(words.trim(), 8, item.y + item.h / 2 + 4);
    }
    if (item.lane !== undefined && (!side || !item.first)) {
      context.fillStyle = colors.soft;
      context.textAlign = 'right';
      context.fillText(data.lanes[item.lane], GUTTER - 6, item.y + item.h / 2 + 4);
    }
  }

  function drawMemory() {
    const context = memory.getContext('2d'), row = data.rows[memoryRow];
    context.clearRect(0, 0, width(), MEMORY + AXIS);
    if (!row || !row.levels.length) return;
    context.font = '12px system-ui, sans-serif';
    const base = MEMORY - 4, scale = (MEMORY - 24) / row.most;
    drawAxis(context, MEMORY + 14, 0, base);
    data.categories.forEach((category, n) => {
      context.fillStyle = colors['memory-' + category];
      row.levels.forEach((level, i) => {
        const end = i + 1 < row.levels.length ? row.levels[i + 1].at : END;
        if (end < view.from || level.at > view.to) return;
        const below = level.live.slice(0, n).reduce((a, b) => a + b, 0);
        const left = Math.max(GUTTER, x(level.at)), right = Math.min(width() - 8, x(end));
        context.fillRect(left, base - (below + level.live[n]) * scale, Math.max(right - left + 0.3, 0.7), level.live[n] * scale);
      });
    });
    context.fillStyle = colors.ink;
    context.textAlign = 'left';
    context.fillText('memory of', 8, 30);
    context.fillText(row.label, 8, 46);
    context.fillStyle = colors.soft;
    context.fillText('peak ' + bytesText(row.most), 8, 66);
    context.fillRect(GUTTER, base - row.most * scale, width() - GUTTER - 8, 1);
  }

  function draw() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ['ink', 'soft', 'grid', 'paper', 'attention', 'attention-back', 'kernel', 'communication', 'host', 'wait',
      'on-attention', 'on-communication', 'chain', 'accent', ...data.categories.map(c => 'memory-' + c)])
      colors[name] = style.getPropertyValue('--' + name).trim();
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, width(), height);
    context.font = '12px system-ui, sans-serif';
    drawAxis(context, 14, AXIS - 4, height);
    for (const item of items) {
      if (item.group) drawGroup(context, item);
      else drawBoxes(context, item);
      drawLabels(context, item);
    }
    drawChain(context);
    drawMemory();
    element('shown').textContent = view.from === 0 && view.to === END ? `all ${duration(END)}`
      : `${duration(view.from)} to ${duration(view.to)}`;
  }

  // ---- moving ----
  function show(from, to) {
    const span = Math.min(END, Math.max(20, to - from));
    view.from = Math.min(Math.max(0, from), END - span);
    view.to = view.from + span;
    draw();
  }
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const pan = share => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

  function boxAt(px, py) {
    const item = items.find(i => py >= i.y && py < i.y + i.h + 1), t = timeAt(px), slack = 3 * (timeAt(1) - timeAt(0));
    if (!item || px < GUTTER || !item.boxes) return {item};
    const half = item.y + item.h / 2;
    const mine = item.boxes.filter(b => t >= b.start - slack && t <= b.end + slack &&
      (item.lane !== undefined || (b.use === 2) === (py > half)));
    const inside = mine.filter(b => t >= b.start && t <= b.end);
    return {item, box: (inside.length ? inside : mine).pop()};
  }

  function point(event) {
    const frame = canvas.getBoundingClientRect();
    return boxAt(event.clientX - frame.left, event.clientY - frame.top);
  }
  function hover(event) {
    const {item, box} = point(event);
    tip.hidden = !box && !(item && item.group);
    canvas.style.cursor = box ? 'pointer' : '';
    if (tip.hidden) return;
    if (box) describe(tip, lines(box));
    else {
      const bin = item.group.bins[Math.floor(timeAt(event.clientX - canvas.getBoundingClientRect().left) / END * item.group.bins.length)];
      if (!bin) return void (tip.hidden = true);
      describe(tip, [[item.group.label, ''], ['a kernel runs', digits(100 * bin[0], 0) + ' %'], ['only a message moves', digits(100 * bin[1], 0) + ' %'],
        ['only waiting', digits(100 * bin[2], 0) + ' %']]);
    }
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + 'px';
  }
  function choose(box) {
    chosen = box;
    if (box) describe(picked, lines(box));
    picked.hidden = !box;
    if (box && box.row.levels.length) memoryRow = data.rows.indexOf(box.row);
    draw();
  }
  function toggle(row) {
    row.open = !row.open;
    memoryRow = data.rows.indexOf(row);
    layOut();
  }

  // ---- search ----
  function search(words) {
    const wanted = words.trim().toLowerCase().split(/\s+/).filter(Boolean);
    hits = null;
    hit = -1;
    if (wanted.length) {
      const list = data.rows.flatMap(row => row.all).filter(box => {
        const text = `${box.id} ${box.kind} ${box.variant} ${box.origin} ${data.lanes[box.lane]} rank ${box.row.rank} step ${box.step} ${data.sides[box.row.side]}`.toLowerCase();
        return wanted.every(word => text.includes(word));
      });
      hits = {list, set: new Set(list)};
    }
    element('found').textContent = hits ? `${hits.list.length} found` : '';
    draw();
  }
  function nextHit(step) {
    if (!hits || !hits.list.length) return;
    hit = (hit + step + hits.list.length) % hits.list.length;
    const box = hits.list[hit], span = Math.max((box.end - box.start) * 6, Math.min(view.to - view.from, END / 4));
    if (!box.row.open) toggle(box.row);
    show((box.start + box.end - span) / 2, (box.start + box.end + span) / 2);
    choose(box);
    element('found').textContent = `${hit + 1} of ${hits.list.length}`;
  }

  // ---- events ----
  let drag = null;
  canvas.addEventListener('pointerdown', event => {
    drag = {at: event.clientX, from: view.from, to: view.to, moved: false};
  });
  canvas.addEventListener('pointermove', event => {
    if (!drag) return hover(event);
    const ns = (event.clientX - drag.at) * (timeAt(1) - timeAt(0));
    drag.moved = drag.moved || Math.abs(event.clientX - drag.at) > 3;
    if (drag.moved) show(drag.from - ns, drag.to - ns);
  });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  window.addEventListener('pointerup', event => {
    if (drag && !drag.moved && event.target === canvas) {
      const {item, box} = point(event);
      if (item && item.row && event.clientX - canvas.getBoundingClientRect().left < GUTTER) toggle(item.row);
      else choose(box || null);
    }
    drag = null;
  });
  canvas.addEventListener('dblclick', event => {
    const {box} = point(event);
    if (box) show(box.start - (box.end - box.start) * 0.3, box.end + (box.end - box.start) * 0.3);
    else show(0, END);
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX - canvas.getBoundingClientRect().left));
  }, {passive: false});

  const field = element('search');
  field.addEventListener('input', () => search(field.value));
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter') nextHit(event.shiftKey ? -1 : 1);
    if (event.key === 'Escape') {
      field.value = '';
      search('');
      field.blur();
    }
    event.stopPropagation();
  });
  function step(by) {
    const rows = data.rows.map((row, n) => [row, n]).filter(([row]) => row.levels.length);
    const at = rows.findIndex(([, n]) => n === memoryRow) + by;
    if (rows[at]) memoryRow = rows[at][1];
    draw();
  }
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), ArrowUp: () => step(-1), ArrowDown: () => step(1),
    '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1 / 0.7), '0': () => show(0, END), '/': () => field.focus(),
    n: () => nextHit(1), c: () => element('chain').click(),
    Escape: () => { tip.hidden = true; choose(null); },
  };
  document.addEventListener('keydown', event => {
    const inTimeline = document.activeElement === canvas;
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    if (/^Arrow(Up|Down)$/.test(event.key) && !inTimeline) return;
    event.preventDefault();
    keys[event.key]();
  });
  element('zoom-in').addEventListener('click', () => zoom(0.6));
  element('zoom-out').addEventListener('click', () => zoom(1 / 0.6));
  element('zoom-all').addEventListener('click', () => show(0, END));
  const box = element('chain');
  if (!chain.length) box.parentElement.hidden = true;
  box.addEventListener('click', () => {
    chainShown = box.checked;
    draw();
  });
  window.addEventListener('resize', layOut);
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', layOut);
  window.addEventListener('beforeprint', layOut);

  // For tests: where on the screen the middle of an operation is, and what is shown.
  window.cplabTimeline = {
    view, rows: data.rows, chain,
    locate(id) {
      const box = data.rows.flatMap(row => row.all).find(each => each.id === id);
      const item = items.find(i => i.row === box.row && (i.lane === undefined || i.lane === box.lane));
      const frame = canvas.getBoundingClientRect();
      return {x: frame.left + x((box.start + box.end) / 2), y: frame.top + item.y + item.h / 2 + (item.lane === undefined && box.use === 2 ? 3 : -1)};
    },
  };
  memoryRow = Math.max(0, data.rows.findIndex(row => row.most === Math.max(...data.rows.map(r => r.most))));
  layOut();
})();
