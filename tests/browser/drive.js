// Appended to a copy of a page by tests/browser/pages.py: uses the page as a reader does and leaves what went wrong in an
// element that the dumped document shows. `expected` is what pages.py knows of the result.
(async () => {
  'use strict';
  const wrong = window.pageErrors;
  const check = (holds, what) => { if (!holds) wrong.push(what); };
  const near = (a, b) => Math.abs(a - b) <= 0.5000001;
  const press = key => document.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
  const result = JSON.parse(document.getElementById('result').textContent);
  const at = pointer => pointer.split('/').slice(1).reduce((node, name) => node === undefined || node === null ? undefined : node[name], result);

  // Every number that names its place is the one there.
  const numbers = [...document.querySelectorAll('data[data-key]')];
  check(numbers.length >= expected.numbers, `${numbers.length} numbers on the page, expected ${expected.numbers}`);
  for (const each of numbers) {
    const value = at(each.dataset.key);
    check(typeof value === 'number' && value === Number(each.value), `${each.dataset.key} is ${each.value} on the page, ${value} in the JSON`);
    check(each.textContent.trim() !== '', `${each.dataset.key} shows nothing`);
  }
  check(document.documentElement.scrollWidth <= window.innerWidth + 1, `the page is ${document.documentElement.scrollWidth} wide, the window ${window.innerWidth}`);
  for (const text of expected.texts || []) check(document.body.innerText.includes(text), `the page does not say "${text}"`);

  const asked = performance.getEntriesByType('resource').map(entry => entry.name).filter(name => !name.startsWith('data:'));
  check(asked.length === 0 && !document.querySelector('[src]'), `the page asks for ${asked}`);

  // Tables sort, both ways.
  for (const table of document.querySelectorAll('table.sortable')) {
    const column = [...table.tHead.rows[0].cells].findIndex(cell => cell.classList.contains('number'));
    if (column < 0) continue;
    const values = () => [...table.tBodies[0].rows].map(row => row.cells[column].dataset.sort).filter(v => v !== '').map(Number);
    const button = table.tHead.rows[0].cells[column].firstElementChild;
    for (const sign of [1, -1]) {
      button.click();
      const all = values();
      check(all.every((v, n) => n === 0 || sign * (v - all[n - 1]) >= 0), `${table.id} is not sorted by its column ${column}`);
    }
  }
  const filter = document.querySelector('input[data-filters]');
  if (filter) {
    const rows = [...document.getElementById(filter.dataset.filters).tBodies[0].rows];
    filter.value = 'no such words';
    filter.dispatchEvent(new Event('input'));
    check(rows.every(row => row.hidden), 'the filter keeps rows without its words');
    filter.value = '';
    filter.dispatchEvent(new Event('input'));
    check(rows.every(row => !row.hidden), 'the filter hides rows without words');
  }

  function timeline() {
    const {view, rows, chain, locate} = window.cplabTimeline, canvas = document.getElementById('timeline');
    const end = view.to, tip = document.getElementById('tip'), span = () => view.to - view.from;
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
    for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    check(seen.size > 6, `the timeline has ${seen.size} colours`);
    check(view.from === 0 && span() === end, 'the page does not begin with all of the time');

    // Times of every operation that is drawn are those of --operations, to the nanosecond.
    let drawn = 0;
    for (const row of rows) for (const box of row.all) {
      const known = expected.operations[row.side][box.id];
      if (!known) continue;
      ++drawn;
      check(near(box.start, known.start_s * 1e9) && near(box.end, known.end_s * 1e9) && Math.abs(box.wait - known.wait_s * 1e9) <= 1.0001,
        `${box.id}: ${box.start}, ${box.end}, ${box.wait} ns, in the JSON ${known.start_s}, ${known.end_s}, ${known.wait_s} s`);
      check(box.bytes === known.bytes && box.flops === known.flops && box.kind === known.kind && box.origin === known.origin, `${box.id}: bytes, FLOPs, kind or origin`);
    }
    check(drawn >= expected.drawn, `${drawn} operations drawn, expected ${expected.drawn}`);
    if (expected.chain) {
      check(chain.length > 0 && chain[0].begin === 0 && Math.abs(chain[chain.length - 1].end - end) <= 1, 'the critical path does not go from 0 to the end');
      check(!document.getElementById('chain').parentElement.hidden, 'the critical path cannot be chosen');
    }

    // Hover: the tooltip of an operation says its id and its bytes.
    const row = rows.find(each => each.open), box = row.all[Math.floor(row.all.length / 2)], place = locate(box.id);
    canvas.dispatchEvent(new PointerEvent('pointermove', {clientX: place.x, clientY: place.y, bubbles: true}));
    check(!tip.hidden, 'nothing appears where the pointer is');
    check(/start .*(ns|µs|ms|s)/.test(tip.innerText.replace(/\s+/g, ' ')), `the tooltip says ${tip.innerText}`);
    canvas.dispatchEvent(new PointerEvent('pointerleave', {bubbles: true}));
    check(tip.hidden, 'the tooltip stays');

    // A click on a rank's name opens and closes its lanes; of many ranks a group says its shares.
    const frame = canvas.getBoundingClientRect(), was = row.open;
    const pointer = (kind, x, y) => canvas.dispatchEvent(new PointerEvent(kind, {clientX: x, clientY: y, bubbles: true}));
    for (const open of [!was, was]) {
      for (const kind of ['pointerdown', 'pointerup']) pointer(kind, frame.left + 10, locate(row.all[0].id).y);
      check(row.open === open, `the name of ${row.label} does not ${open ? 'open' : 'close'} it`);
    }
    if (expected.groups) {
      pointer('pointermove', place.x, frame.bottom - 12);
      check(!tip.hidden && tip.innerText.includes('a kernel runs'), `the tooltip of a group says ${tip.innerText}`);
      pointer('pointerleave', 0, 0);
    }
    // The critical path goes and comes back; memory is that of another rank.
    const painted = each => each.toDataURL(), withChain = painted(canvas);
    if (expected.chain) {
      press('c');
      check(painted(canvas) !== withChain, 'c does not take the critical path away');
      press('c');
      check(painted(canvas) === withChain, 'c does not bring the critical path back');
    }
    const memory = document.getElementById('memory'), others = rows.filter(each => each.levels.length).length > 1;
    if (!memory.hidden && others) {
      canvas.focus({preventScroll: true});
      const seen = new Set([painted(memory)]);
      for (const key of ['ArrowUp', 'ArrowDown', 'ArrowDown']) {
        press(key);
        seen.add(painted(memory));
      }
      check(seen.size > 1, 'the arrows show no other memory');
      canvas.blur();
    }

    // Zoom: keys, buttons, wheel; moving; back to all.
    press('+');
    check(span() < end, '+ does not zoom in');
    const before = span();
    press('-');
    check(span() > before, '- does not zoom out');
    press('0');
    document.getElementById('zoom-in').click();
    const from = view.from;
    press('ArrowRight');
    check(view.from > from, 'the arrow does not move');
    press('ArrowLeft');
    check(Math.abs(view.from - from) < 1, 'the other arrow does not move back');
    canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, ctrlKey: true, clientX: place.x, clientY: place.y, bubbles: true, cancelable: true}));
    check(span() < 0.6 * end, 'Ctrl and wheel do not zoom');
    document.getElementById('zoom-all').click();
    check(span() === end, 'the whole does not come back');
    canvas.dispatchEvent(new MouseEvent('dblclick', {clientX: place.x, clientY: place.y, bubbles: true}));
    check(span() < end, 'a double click does not zoom');
    press('0');

    // Search, next hit, let go.
    press('/');
    const field = document.getElementById('search');
    check(document.activeElement === field, '/ does not lead to the search');
    const [word, count] = expected.search;
    field.value = word;
    field.dispatchEvent(new Event('input'));
    check(count === null || document.getElementById('found').textContent === `${count} found`, `"${word}": ${document.getElementById('found').textContent}, expected ${count}`);
    field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}));
    const picked = document.getElementById('picked');
    check(!picked.hidden && picked.innerText.includes(word), `the hit is not shown: ${picked.innerText}`);
    field.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
    press('Escape');
    check(picked.hidden && document.getElementById('found').textContent === '', 'Esc does not let go');
    press('0');
  }
  try {
    if (expected.operations) timeline();
    else check(!document.getElementById('timeline-data'), 'a timeline that was not expected');
  } catch (error) {
    wrong.push(String(error && error.stack || error));
  }
  const verdict = document.createElement('pre');
  verdict.id = 'verdict';
  verdict.textContent = JSON.stringify({wrong: wrong.slice(0, 20), numbers: numbers.length, paper: getComputedStyle(document.body).backgroundColor});
  document.body.append(verdict);
})();
