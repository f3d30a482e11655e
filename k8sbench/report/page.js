const filter = document.querySelector('#filter'), none = document.querySelector('#none');
filter.closest('p').hidden = false;
const rows = [...document.querySelectorAll('main tbody')];
// What all rows share stands in the heading and around the table, and counts as well.
const said = new Map(rows.map(row => [row, [...row.rows[0].cells, row.closest('table').caption,
  row.closest('section').querySelector('h2'), ...row.querySelectorAll('.env dd'),
  ...row.closest('section').querySelectorAll('details .env dd')]
  .map(one => one.textContent).join(' ')]));
filter.oninput = () => {
  const words = filter.value.split(/\s+/).map(word => new RegExp(
    '(^|[^\\p{L}\\p{N}])' + word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/-/g, '[-−]'), 'iu'));
  rows.forEach(row => { row.hidden = !words.every(word => word.test(said.get(row))); });
  document.querySelectorAll('section, .of-table').forEach(part => {
    part.hidden = !part.querySelector('tbody:not([hidden])');
  });
  none.hidden = rows.some(row => !row.hidden);
};
document.querySelectorAll('tbody > tr:first-child > td:not(:first-child)').forEach(cell =>
  cell.dataset.title = cell.closest('table').tHead.rows[0].cells[cell.cellIndex].textContent);
document.querySelectorAll('tbody > .more').forEach(more => {
  const cell = more.previousElementSibling.cells[0], button = document.createElement('button');
  button.append(...cell.childNodes);
  cell.append(button);
  const show = open => { more.hidden = !open; button.ariaExpanded = open; };
  button.onclick = () => show(more.hidden);
  show(false);
  // A link from the first table unfolds the row that it leads to.
  more.parentElement.unfold = () => show(true);
});
onhashchange = () => document.getElementById(location.hash.slice(1))?.unfold?.();
onhashchange();
document.querySelectorAll('.of-note').forEach(link => {
  link.role = 'button';
  link.ariaExpanded = false;
  link.onclick = event => {
    event.preventDefault();
    const row = link.closest('tr');
    if (link.shown) {
      link.shown.remove();
      link.shown = null;
    } else {
      link.shown = row.parentElement.insertRow(row.rowIndex - row.parentElement.rows[0].rowIndex + 1);
      link.shown.className = 'note';
      const cell = link.shown.insertCell();
      cell.colSpan = row.cells.length;
      cell.textContent = document.getElementById(link.hash.slice(1)).textContent;
    }
    link.ariaExpanded = Boolean(link.shown);
  };
});
const text = (row, place) => row.rows[0].cells[place].textContent;
// A case is as large as its GPUs.
const number = text => { const [a, b] = text.replace('−', '-').split('x').map(parseFloat); return b ? a * b : a; };
// What has no figure comes last.
const compare = (a, b) => (isNaN(number(a)) - isNaN(number(b))) || (number(b) - number(a))
  || a.localeCompare(b, undefined, {numeric: true});
document.querySelectorAll('main th').forEach(head => {
  const button = document.createElement('button');
  button.append(...head.childNodes);
  head.append(button);
  button.onclick = () => {
    const table = head.closest('table'), place = head.cellIndex;
    const turn = head.ariaSort === 'descending' ? -1 : 1;
    table.querySelectorAll('th').forEach(other => { other.ariaSort = null; });
    head.ariaSort = turn > 0 ? 'descending' : 'ascending';
    table.append(...[...table.tBodies].sort((a, b) => turn * compare(text(a, place), text(b, place))));
  };
});
