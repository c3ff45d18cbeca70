// Tables of a page: a click on a header sorts by it, a second one the other way; the field above a long table keeps the
// rows that hold all of its words.
(() => {
  'use strict';
  const value = cell => (cell.dataset.sort === '' ? cell.textContent.trim() : cell.dataset.sort);
  function compare(a, b) {
    const left = Number(a), right = Number(b);
    const numbers = a !== '' && b !== '' && !Number.isNaN(left) && !Number.isNaN(right);
    return numbers ? left - right : a.localeCompare(b, 'en', {numeric: true});
  }
  for (const table of document.querySelectorAll('table.sortable')) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    heads.forEach((head, column) => head.firstElementChild.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const each of heads) each.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const rows = [...body.rows].sort((a, b) => compare(value(a.cells[column]), value(b.cells[column])));
      body.append(...(down ? rows.reverse() : rows));
    }));
  }
  for (const field of document.querySelectorAll('input[data-filters]')) {
    field.addEventListener('input', () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of document.getElementById(field.dataset.filters).tBodies[0].rows)
        row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
    });
  }
})();
