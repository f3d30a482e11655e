const filter = document.querySelector('#filter');
filter.closest('p').hidden = false;
filter.oninput = () => document.querySelectorAll('tbody').forEach(row => {
  row.hidden = !row.rows[0].textContent.toLowerCase().includes(filter.value.toLowerCase());
});
document.querySelectorAll('tbody > tr:first-child > td').forEach(cell =>
  cell.dataset.title = cell.closest('table').tHead.rows[0].cells[cell.cellIndex].textContent);
const text = (row, place) => row.rows[0].cells[place].textContent;
const number = text => parseFloat(text.replace('−', '-'));
// What has no figure comes last.
const compare = (a, b) => (isNaN(number(a)) - isNaN(number(b))) || (number(b) - number(a))
  || a.localeCompare(b, undefined, {numeric: true});
document.querySelectorAll('th').forEach(head => {
  const button = document.createElement('button');
  button.append(...head.childNodes);
  head.append(button);
  button.onclick = () => {
    const table = head.closest('table'), place = head.cellIndex;
    table.append(...[...table.tBodies].sort((a, b) => compare(text(a, place), text(b, place))));
  };
});
