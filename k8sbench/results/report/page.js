const all = (query, root = document) => [...root.querySelectorAll(query)];
const [filter, tip] = all('#filter, #tip');
filter.closest('p').hidden = false;
// What all rows share stands in the heading and around the table, and counts as well.
const plain = text => ' ' + text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ');
const rows = all('main tbody');
rows.forEach(row => row.said = plain([...row.rows[0].cells, ...all('.env dd', row),
  ...all('h2, caption, details .env dd', row.closest('section'))].map(part => part.textContent).join(' ')));
filter.oninput = () => {
  const words = filter.value.split(/\s+/).map(plain);
  rows.forEach(row => row.hidden = !words.every(word => row.said.includes(word)));
};
all('td + td').forEach(cell =>
  cell.dataset.title = all('th', cell.closest('table'))[cell.cellIndex].textContent);
const button = (cell, act) => {
  const made = document.createElement('button');
  made.append(...cell.childNodes);
  cell.append(made);
  made.onclick = act;
  return made;
};
all('main tr + tr').forEach(more => {
  const show = open => { more.hidden = !open; made.ariaExpanded = open; };
  const made = button(more.previousElementSibling.cells[0], () => show(more.hidden));
  show(false);
  more.parentElement.unfold = show;
});
// A link unfolds the row, or the notes, that it leads to.
const lead = hash => {
  const to = document.getElementById(hash?.slice(1)), notes = to?.closest('details');
  to?.unfold?.(true);
  if (notes) notes.open = true;
};
onclick = event => lead(event.target.closest('a')?.hash);
lead(location.hash);
// A case is as large as its GPUs; what has no figure comes last.
const number = text => text.replace('−', '-').split('x').map(parseFloat).reduce((a, b) => a * b);
const compare = (a, b) =>
  isNaN(number(a)) - isNaN(number(b)) || number(b) - number(a) || a.localeCompare(b);
all('main th').forEach(head => button(head, () => {
  const table = head.closest('table'), turn = head.ariaSort === 'descending' ? -1 : 1;
  const text = row => row.rows[0].cells[head.cellIndex].textContent;
  all('th', table).forEach(other => other.ariaSort = null);
  head.ariaSort = turn > 0 ? 'descending' : 'ascending';
  table.append(...[...table.tBodies].sort((a, b) => turn * compare(text(a), text(b))));
}));
// Beside the pointer stand the values at the nearest place of a chart.
all('figure title').forEach(title => title.remove());
const box = panel => panel.querySelector('.grid.l').getBoundingClientRect();
onpointermove = onpointerdown = ({target, clientX: x, clientY: y}) => {
  const chart = target.closest('[data-at]');
  const panel = chart && all('[viewBox]', chart).find(panel => box(panel).bottom + 9 > y);
  if (tip.hidden = !panel) return;
  const {left, width} = box(panel), axis = tip.dataset.axes.split('\n')[chart.dataset.at];
  const [[from, ...name], ...places] = axis.split('|').map(place => place.split(','));
  const away = places.map(([at]) => Math.abs(at - (x - left) / width * 1000));
  const near = away.indexOf(Math.min(...away));
  const [, minute, ...end] = places[near];
  const time = minute && new Date(6e4 * (+from + +minute)).toISOString().slice(0, 16) + 'Z';
  tip.textContent = [name + end, time, ...all('[data-v]', panel)
    .map(line => line.dataset.v.split('|')[near])].filter(Boolean).join('\n');
  tip.style.translate = Math.min(x + 12, innerWidth - tip.offsetWidth) + 'px ' + (y + 16) + 'px';
};
