/** The search field, and buttons that copy code. */
const maxResults = 30;
const input = document.getElementById('site-search');
const results = document.getElementById('site-results');
const contents = document.getElementById('site-contents');
const status = document.getElementById('site-status');
let loading;

input.closest('search').hidden = false;

async function load() {
  const response = await fetch('SECTIONS');
  return response.json();
}

function resultItem({ path, page, heading }) {
  const link = document.createElement('a');
  link.href = path;
  const label = document.createElement('span');
  label.textContent = heading;
  link.append(label);
  if (page !== heading) {
    const detail = document.createElement('small');
    detail.textContent = page;
    link.append(detail);
  }
  const item = document.createElement('li');
  item.append(link);
  return item;
}

input.addEventListener('input', async () => {
  loading ??= load();
  const sections = await loading.catch(() => {
    loading = undefined;
    return [];
  });
  const isEmpty = input.value.trim() === '';
  const found = isEmpty ? [] : search(sections, input.value);
  results.replaceChildren(...found.slice(0, maxResults).map(resultItem));
  contents.hidden = !isEmpty;
  status.textContent = isEmpty ? '' : found.length === 1 ? '1 result' : `${found.length} results`;
});

input.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') results.querySelector('a')?.click();
  if (event.key === 'Escape' && input.value !== '') {
    event.preventDefault();
    input.value = '';
    input.dispatchEvent(new Event('input'));
  }
});

// Arrow keys move between the input and the results.
input.closest('search').addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const stops = [input, ...results.querySelectorAll('a')];
  stops[stops.indexOf(document.activeElement) + step]?.focus();
});

document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.target.closest('input') || !input.checkVisibility()) return;
  event.preventDefault();
  input.focus();
});

for (const block of navigator.clipboard ? document.querySelectorAll('pre') : []) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.querySelector('code').textContent);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  });
  block.append(button);
}
