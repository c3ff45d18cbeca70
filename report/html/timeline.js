// The timeline of a page: lanes of every rank on a canvas, memory of one rank beneath on the same axis, the chain that
// determines the end over it. Reads the element #timeline-data (report/html/timeline_data.cpp); times are nanoseconds.
(() => {
  'use strict';
  const source = document.getElementById('timeline-data');
  if (!source) return;
  const data = JSON.parse(source.textContent), chain = cplabRead(data);
  const element = id => document.getElementById(id);
  const canvas = element('timeline'), memory = element('memory'), tip = element('tip'), picked = element('picked');
  const USES = ['attention', 'kernel', 'communication', 'host'], COMMUNICATION = 2, HOST = 3;
  const GUTTER = 148, MARGIN = 8, AXIS = 24, LANE = 18, THIN = 12, GAP = 6, GROUP = 14, MEMORY = 96;
  const END = Math.max(1, data.end_ns), view = {from: 0, to: END}, twoSides = data.sides.length > 1;
  let items = [], height = 0, colors = {}, chosen = null, chainShown = true;
  let hits = [], hitSet = null, hit = -1;  // of the search; hitSet null: nothing is searched
  let remembered = data.rows.reduce((a, b) => b.most > a.most ? b : a, data.rows[0]);  // the row whose memory is shown

  // ---- time and place ----
  const width = () => canvas.parentElement.clientWidth;
  const nsPerPixel = () => (view.to - view.from) / (width() - GUTTER - MARGIN);
  const x = ns => GUTTER + (ns - view.from) / nsPerPixel();
  const timeAt = px => view.from + (px - GUTTER) * nsPerPixel();
  const hidden = (from, to) => to < view.from || from > view.to;
  const across = (from, to) => [Math.max(GUTTER, x(from)), Math.min(width() - MARGIN, x(to))];

  // ---- words ----
  const digits = (n, d = 3) => n.toLocaleString('en-US', {minimumFractionDigits: d, maximumFractionDigits: d});
  const percent = share => digits(100 * share, 0) + ' %';
  function duration(ns) {
    return ns >= 1e10 ? digits(ns / 1e9) + ' s' : ns >= 1e6 ? digits(ns / 1e6) + ' ms' : digits(ns / 1e3) + ' µs';
  }
  function scaled(value, base, names) {
    let n = 0;
    for (; value >= base && n < names.length - 1; ++n) value /= base;
    return digits(value, n ? 2 : 0) + ' ' + names[n];
  }
  const bytesText = bytes => scaled(bytes, 1024, ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']);
  const flopsText = flops => scaled(flops, 1000, ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP']);
  const onChain = box => box.row.side === 0 &&
    chain.some(step => !step.host && step.rank === box.row.rank && box.row.all[step.operation] === box);

  // What is said of an operation: [name, text] a line.
  function linesOf(box) {
    const lasts = box.end - box.start, moves = lasts - box.wait, communicates = box.use === COMMUNICATION;
    const all = [[box.id, [data.sides[box.row.side], data.lanes[box.lane]].filter(Boolean).join(', ')]];
    if (box.phase) all.push(['what', data.steps ? `${box.kind}, step ${box.step}` : box.kind]);
    if (box.variant) all.push(['by', box.variant]);
    all.push(['start', duration(box.start)], ['end', duration(box.end)], ['lasts', duration(lasts)]);
    if (box.wait) all.push(['waits', duration(box.wait) + ' for peers']);
    if (box.bytes) {
      const rate = communicates && moves > 0 ? ` at ${digits(box.bytes / moves, 1)} GB/s` : '';
      all.push([communicates ? 'sends' : 'reads, writes', bytesText(box.bytes) + rate]);
    }
    if (box.flops) {
      const rate = lasts > 0 ? ` at ${digits(box.flops / lasts / 1e3, 1)} TFLOP/s` : '';
      all.push(['work', flopsText(box.flops) + rate]);
    }
    if (box.origin) all.push(['time is', box.origin]);
    if (onChain(box)) all.push(['', 'on the critical path']);
    return all;
  }
  const linesOfGroup = (group, [kernels, moves, waits]) => [[group.label, ''], ['a kernel runs', percent(kernels)],
    ['only a message moves', percent(moves)], ['only waiting', percent(waits)]];
  function describe(into, lines) {
    into.replaceChildren(...lines.map(([name, text]) => {
      const line = document.createElement('div'), head = document.createElement('b');
      head.textContent = name;
      line.append(head, ' ' + text);
      return line;
    }));
  }

  // ---- where things lie: an item is a lane of an open row, a thin row, or a group of rows ----
  const itemOf = box => items.find(i => i.row === box.row && (i.lane === undefined || i.lane === box.lane));
  function layOut() {
    items = [];
    let y = AXIS;
    const add = (item, h, gap) => {
      items.push({y, h, ...item});
      y += h + gap;
    };
    for (const row of data.rows) {
      if (row.open) row.lanes.forEach(([lane, boxes], n) => add({row, lane, boxes, place: n}, LANE, 1));
      else add({row, boxes: row.all, place: 0}, THIN, 0);
      y += twoSides && row.side === 0 ? 1 : row.open ? GAP : 2;
    }
    if (data.groups.length) y += GAP;
    for (const group of data.groups) add({group}, GROUP, twoSides && group.side === 0 ? 0 : 2);
    height = y + 4;
    // Each step of the chain lies on its operation's lane, or on the group that its rank is in.
    for (const step of chain) {
      const row = data.rows.find(each => each.rank === step.rank && each.side === 0);
      const box = row && row.all[step.operation];
      const item = box ? itemOf(box) : items.find(({group}) =>
        group && group.side === 0 && group.first <= step.rank && group.last >= step.rank);
      step.y = item ? item.y + item.h - 2.5 : null;
    }
    memory.hidden = !data.rows.some(row => row.levels.length);
    for (const [each, h] of [[canvas, height], [memory, MEMORY + AXIS]]) {
      const ratio = window.devicePixelRatio || 1;
      each.style.height = h + 'px';
      each.width = Math.round(width() * ratio);
      each.height = Math.round(h * ratio);
      each.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    draw();
  }

  // ---- drawing ----
  function clipped(pen, left, top, w, h, draws) {
    pen.save();
    pen.beginPath();
    pen.rect(left, top, w, h);
    pen.clip();
    draws();
    pen.restore();
  }
  function write(pen, text, color, align, px, py) {
    pen.fillStyle = colors[color];
    pen.textAlign = align;
    pen.fillText(text, px, py);
  }

  function drawAxis(pen, y, top, bottom) {
    const rough = nsPerPixel() * 110, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
    const [unit, name] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']].find(([ns]) => step >= ns) || [1, 'ns'];
    const places = Math.min(6, Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9)));
    for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) {
      pen.fillStyle = colors.grid;
      pen.fillRect(Math.round(x(t)), top, 1, bottom - top);
      const fits = x(t) > GUTTER + 20 && x(t) < width() - 24;
      if (fits) write(pen, `${digits(t / unit, places)} ${name}`, 'soft', 'center', x(t), y);
    }
  }

  function hatch(pen, left, top, w, h) {
    clipped(pen, left, top, w, h, () => {
      pen.fillStyle = colors.paper;
      pen.fillRect(left, top, w, h);
      pen.strokeStyle = colors.communication;
      pen.lineWidth = 1;
      pen.beginPath();
      for (let at = Math.floor((left - h) / 5) * 5; at < left + w; at += 5) {
        pen.moveTo(at, top + h);
        pen.lineTo(at + h, top);
      }
      pen.stroke();
      pen.strokeRect(left + 0.5, top + 0.5, Math.max(0, w - 1), h - 1);
    });
  }

  function drawBox(pen, box, top, h) {
    const [left, right] = across(box.start, box.end), waits = Math.min(right, x(box.start + box.wait)) - left;
    const begin = waits > 1 ? left + waits : left, w = Math.max(right - begin, 0.7);
    pen.globalAlpha = hitSet && !hitSet.has(box) ? 0.18 : 1;
    if (waits > 1) hatch(pen, left, top, waits, h);
    pen.fillStyle = colors[USES[box.use] + (box.phase === 'backward' && box.use === 0 ? '-back' : '')];
    pen.fillRect(begin, top, w > 3 ? w - 0.6 : w, h);
    if (h >= LANE && w > 26) {
      const kind = box.kind.replace('attend_backward', 'attend');
      const text = box.phase && data.steps ? `${kind} ${box.step}` : kind;
      const ink = box.use === COMMUNICATION ? 'on-communication' : 'on-attention';
      const shown = w > 7 * text.length || !data.steps ? text : String(box.step);
      clipped(pen, begin, top, w - 2, h, () => write(pen, shown, ink, 'left', begin + 4, top + h / 2 + 4));
    }
    if (box === chosen) {
      pen.strokeStyle = colors.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left + 1, top + 1, Math.max(2, right - left - 2), h - 2);
    }
    pen.globalAlpha = 1;
  }

  // A thin row has communication in its lower half. Boxes that would lie on one pixel are drawn once.
  function drawBoxes(pen, item) {
    const thin = item.lane === undefined, half = item.h / 2, drawnTo = [-9, -9];
    for (const box of item.boxes) {
      if (hidden(box.start, box.end) || (thin && box.use === HOST)) continue;
      const lower = thin && box.use === COMMUNICATION ? 1 : 0;
      if (x(box.end) - drawnTo[lower] < 0.5 && box !== chosen && !(hitSet && hitSet.has(box))) continue;
      drawnTo[lower] = x(box.end);
      drawBox(pen, box, item.y + lower * half, thin ? half - 0.5 : item.h);
    }
  }

  function drawGroup(pen, {group, y, h}) {
    const bin = END / group.bins.length;
    group.bins.forEach((shares, n) => {
      const [left, right] = across(n * bin, (n + 1) * bin);
      if (right <= left) return;
      let top = y + h;
      ['attention', 'communication', 'wait'].forEach((use, each) => {
        top -= shares[each] * h;
        pen.fillStyle = colors[use];
        pen.fillRect(left, top, right - left + 0.3, shares[each] * h);
      });
    });
  }

  function drawLabels(pen, {row, group, lane, place, y, h}) {
    const side = twoSides ? data.sides[(row || group).side] : '', middle = y + h / 2 + 4;
    if (group) return write(pen, side ? `${group.label}, ${side}` : group.label, 'ink', 'left', MARGIN, y + h - 3);
    if (row === remembered && row.levels.length) {
      pen.fillStyle = colors.accent;
      pen.fillRect(0, y, 3, h);
    }
    const [name, role] = row.label.split(', '), first = `${row.open ? name : row.label} ${side}`.trim();
    if (place === 0) write(pen, first, 'ink', 'left', MARGIN, middle);
    if (place === 1 && role) write(pen, role, 'soft', 'left', MARGIN, middle);
    if (lane !== undefined && (!side || place > 0)) write(pen, data.lanes[lane], 'soft', 'right', GUTTER - 6, middle);
  }

  function drawChain(pen) {
    let before = null;
    pen.strokeStyle = colors.chain;
    pen.lineJoin = 'round';
    for (const step of chain) {
      if (step.y === null) continue;
      if (!hidden(step.begin, step.end)) {
        pen.lineWidth = step.host ? 1.5 : 3.5;
        pen.setLineDash(step.host ? [2, 2] : []);
        pen.beginPath();
        pen.moveTo(x(step.begin), before ?? step.y);
        pen.lineTo(x(step.begin), step.y);
        pen.lineTo(x(step.end), step.y);
        pen.stroke();
      }
      before = step.y;
    }
  }

  function drawMemory(pen) {
    pen.clearRect(0, 0, width(), MEMORY + AXIS);
    if (!remembered || !remembered.levels.length) return;
    const {levels, most, label} = remembered, base = MEMORY - 4, scale = (MEMORY - 24) / most;
    drawAxis(pen, MEMORY + 14, 0, base);
    levels.forEach((level, n) => {
      const end = n + 1 < levels.length ? levels[n + 1].at : END;
      if (hidden(level.at, end)) return;
      const [left, right] = across(level.at, end);
      let top = base;
      data.categories.forEach((category, each) => {
        top -= level.live[each] * scale;
        pen.fillStyle = colors['memory-' + category];
        pen.fillRect(left, top, Math.max(right - left + 0.3, 0.7), level.live[each] * scale);
      });
    });
    write(pen, 'memory of', 'ink', 'left', MARGIN, 30);
    write(pen, label, 'ink', 'left', MARGIN, 46);
    write(pen, 'peak ' + bytesText(most), 'soft', 'left', MARGIN, 66);
    pen.fillRect(GUTTER, base - most * scale, width() - GUTTER - MARGIN, 1);
  }

  function draw() {
    const style = getComputedStyle(document.documentElement), pen = canvas.getContext('2d');
    for (const name of [...USES, 'attention-back', 'on-attention', 'on-communication', 'wait', 'ink', 'soft', 'grid',
      'paper', 'chain', 'accent', ...data.categories.map(category => 'memory-' + category)])
      colors[name] = style.getPropertyValue('--' + name).trim();
    pen.clearRect(0, 0, width(), height);
    pen.font = memory.getContext('2d').font = '12px system-ui, sans-serif';
    drawAxis(pen, 14, AXIS - 4, height);
    for (const item of items) {
      (item.group ? drawGroup : drawBoxes)(pen, item);
      drawLabels(pen, item);
    }
    if (chainShown) clipped(pen, GUTTER, AXIS, width() - GUTTER - MARGIN, height, () => drawChain(pen));
    drawMemory(memory.getContext('2d'));
    const all = view.from === 0 && view.to === END;
    element('shown').textContent = all ? `all ${duration(END)}` : `${duration(view.from)} to ${duration(view.to)}`;
  }

  // ---- moving and choosing ----
  function show(from, to) {
    const span = Math.min(END, Math.max(20, to - from));
    view.from = Math.min(Math.max(0, from), END - span);
    view.to = view.from + span;
    draw();
  }
  const showAll = () => show(0, END);
  const showAround = (box, span) => show((box.start + box.end - span) / 2, (box.start + box.end + span) / 2);
  const zoom = (factor, at = (view.from + view.to) / 2) =>
    show(at - (at - view.from) * factor, at + (view.to - at) * factor);
  const pan = share => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

  function choose(box) {
    chosen = box || null;
    if (box) describe(picked, linesOf(box));
    picked.hidden = !box;
    if (box && box.row.levels.length) remembered = box.row;
    draw();
  }
  function toggle(row) {
    row.open = !row.open;
    remembered = row;
    layOut();
  }
  function rememberNext(by) {
    const rows = data.rows.filter(row => row.levels.length);
    remembered = rows[rows.indexOf(remembered) + by] || remembered;
    draw();
  }

  // The item, operation and time that an event points at.
  function pointed(event) {
    const frame = canvas.getBoundingClientRect(), px = event.clientX - frame.left, py = event.clientY - frame.top;
    const item = items.find(({y, h}) => py >= y && py < y + h + 1), t = timeAt(px), inGutter = px < GUTTER;
    if (!item || inGutter || item.group) return {item, t, inGutter};
    const lower = py > item.y + item.h / 2, slack = 3 * nsPerPixel();
    const near = item.boxes.filter(box => t >= box.start - slack && t <= box.end + slack &&
      (item.lane !== undefined || (box.use === COMMUNICATION) === lower));
    const inside = near.filter(box => t >= box.start && t <= box.end);
    return {item, t, inGutter, box: (inside.length ? inside : near).pop()};
  }
  function hover(event) {
    const {item, box, t} = pointed(event), group = item && item.group;
    const bin = group && group.bins[Math.floor(t / END * group.bins.length)];
    tip.hidden = !box && !bin;
    canvas.style.cursor = box ? 'pointer' : '';
    if (tip.hidden) return;
    describe(tip, box ? linesOf(box) : linesOfGroup(group, bin));
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + 'px';
    tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + 'px';
  }

  // ---- search ----
  function search(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    hits = data.rows.flatMap(row => row.all).filter(box => {
      const text = [box.id, box.kind, box.variant, box.origin, data.lanes[box.lane], 'rank', box.row.rank, 'step', box.step,
        data.sides[box.row.side]].join(' ').toLowerCase();
      return wanted.every(word => text.includes(word));
    });
    hitSet = wanted.length ? new Set(hits) : null;
    hit = -1;
    element('found').textContent = hitSet ? `${hits.length} found` : '';
    draw();
  }
  function nextHit() {
    if (!hitSet || !hits.length) return;
    hit = (hit + 1) % hits.length;
    const box = hits[hit];
    if (!box.row.open) toggle(box.row);
    showAround(box, Math.max((box.end - box.start) * 6, Math.min(view.to - view.from, END / 4)));
    choose(box);
    element('found').textContent = `${hit + 1} of ${hits.length}`;
  }

  // ---- events ----
  let drag = null;
  canvas.addEventListener('pointerdown', event => {
    drag = {at: event.clientX, from: view.from, to: view.to, moved: false};
  });
  canvas.addEventListener('pointermove', event => {
    if (!drag) return hover(event);
    const pixels = event.clientX - drag.at, ns = pixels * nsPerPixel();
    drag.moved = drag.moved || Math.abs(pixels) > 3;
    if (drag.moved) show(drag.from - ns, drag.to - ns);
  });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  window.addEventListener('pointerup', event => {
    if (drag && !drag.moved && event.target === canvas) {
      const {item, box, inGutter} = pointed(event);
      if (inGutter && item && item.row) toggle(item.row);
      else choose(box);
    }
    drag = null;
  });
  canvas.addEventListener('dblclick', event => {
    const {box} = pointed(event);
    if (box) showAround(box, (box.end - box.start) * 1.6);
    else showAll();
  });
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, pointed(event).t);
  }, {passive: false});

  const field = element('search'), chainBox = element('chain');
  field.addEventListener('input', () => search(field.value));
  field.addEventListener('keydown', event => {
    if (event.key === 'Enter') nextHit();
    if (event.key === 'Escape') {
      field.value = '';
      search('');
      field.blur();
    }
    event.stopPropagation();
  });
  const keys = {
    ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), '+': () => zoom(0.7), '-': () => zoom(1 / 0.7), '0': showAll,
    '/': () => field.focus(), n: nextHit, c: () => chainBox.click(),
    Escape: () => { tip.hidden = true; choose(null); },
  };
  const keysOfDrawing = {ArrowUp: () => rememberNext(-1), ArrowDown: () => rememberNext(1)};
  document.addEventListener('keydown', event => {
    const {activeElement} = document, act = keys[event.key] || (activeElement === canvas && keysOfDrawing[event.key]);
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(activeElement.tagName) && activeElement.type !== 'checkbox';
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !act) return;
    event.preventDefault();
    act();
  });
  element('zoom-in').addEventListener('click', () => zoom(0.7));
  element('zoom-out').addEventListener('click', () => zoom(1 / 0.7));
  element('zoom-all').addEventListener('click', showAll);
  chainBox.parentElement.hidden = !chain.length;
  chainBox.addEventListener('click', () => {
    chainShown = chainBox.checked;
    draw();
  });
  window.addEventListener('resize', layOut);
  window.addEventListener('beforeprint', layOut);
  for (const query of ['(prefers-color-scheme: dark)', 'print']) matchMedia(query).addEventListener('change', layOut);

  // For tests: where on the screen the middle of an operation is, and what is shown.
  window.cplabTimeline = {
    view, rows: data.rows, chain,
    locate(id) {
      const box = data.rows.flatMap(row => row.all).find(each => each.id === id), item = itemOf(box);
      const frame = canvas.getBoundingClientRect(), below = item.lane === undefined && box.use === COMMUNICATION ? 3 : -1;
      return {x: frame.left + x((box.start + box.end) / 2), y: frame.top + item.y + item.h / 2 + below};
    },
  };
  layOut();
})();
