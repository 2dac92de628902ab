const languages = ['curl', 'javascript', 'python'];
const storedLanguage = 'sallyport-docs-language';

// Called before the page is rendered, so that the height of the page does not change afterwards.
showLanguage(readLanguage());

document.addEventListener('DOMContentLoaded', () => {
  for (const element of document.querySelectorAll('.origin')) element.textContent = location.origin;
  markLanguage();
  addLanguageChoice();
  addCopyButtons();
  addSendForms();
  closeMenuOnNavigation();
  addSearch();
});

function readLanguage() {
  try {
    const language = localStorage.getItem(storedLanguage);
    return languages.includes(language) ? language : 'curl';
  } catch {
    return 'curl';
  }
}

function showLanguage(language) {
  document.documentElement.dataset.language = language;
}

function markLanguage() {
  const { language } = document.documentElement.dataset;
  for (const button of document.querySelectorAll('[data-choose]'))
    button.setAttribute('aria-pressed', String(button.dataset.choose === language));
}

function addLanguageChoice() {
  document.addEventListener('click', ({ target }) => {
    const button = target.closest('[data-choose]');
    if (!button) return;
    // Samples above the button change their height: scroll so that the button does not move.
    const before = button.getBoundingClientRect().top;
    showLanguage(button.dataset.choose);
    markLanguage();
    scrollBy({ top: button.getBoundingClientRect().top - before, behavior: 'instant' });
    try {
      localStorage.setItem(storedLanguage, button.dataset.choose);
    } catch {}
  });
}

function addCopyButtons() {
  for (const sample of navigator.clipboard ? document.querySelectorAll('.sample') : []) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      const code = [...sample.querySelectorAll('code')].find((each) => each.checkVisibility());
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = 'Copied';
      setTimeout(() => {
        button.textContent = 'Copy';
      }, 1500);
    });
    sample.querySelector('figcaption').append(button);
  }
}

/** The key of requests that the page sends. It is only in memory: a reload forgets it. */
let sentKey = '';

function addSendForms() {
  for (const sample of document.querySelectorAll('[data-method]')) {
    const open = document.createElement('button');
    open.type = 'button';
    open.className = 'copy';
    open.textContent = 'Send…';
    open.addEventListener('click', () => {
      open.remove();
      const form = sendForm(sample.dataset);
      sample.after(form);
      form.querySelector('input').focus();
    });
    sample.querySelector('figcaption').append(open);
  }
}

function labelled(name, element, value) {
  const field = document.createElement(element);
  field.value = value;
  field.spellcheck = false;
  const label = document.createElement('label');
  label.append(name, field);
  return { label, field };
}

function sendForm({ method, path, body }) {
  const form = document.createElement('form');
  form.className = 'send-form';
  const key = labelled('Key (stays in the memory of this page)', 'input', sentKey);
  Object.assign(key.field, { type: 'password', autocomplete: 'off' });
  const address = labelled('Path', 'input', path);
  const content = body === '' ? undefined : labelled('Body', 'textarea', body);
  if (content) content.field.rows = 8;
  const send = document.createElement('button');
  send.textContent = `Send ${method.toUpperCase()}`;
  const answer = document.createElement('pre');
  answer.setAttribute('role', 'status');
  answer.tabIndex = 0;
  form.append(key.label, address.label, ...(content ? [content.label] : []), send, answer);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    sentKey = key.field.value.trim();
    answer.textContent = await answerTo(method, address.field.value, content?.field.value);
  });
  return form;
}

async function answerTo(method, path, body) {
  const headers = {
    ...(sentKey !== '' && { 'SVC-API-KEY': sentKey }),
    ...(body !== undefined && { 'Content-Type': 'application/json' }),
  };
  try {
    const response = await fetch(new URL(path, location.origin), {
      method: method.toUpperCase(),
      headers,
      body,
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    return `${response.status}\n${isJson && text !== '' ? JSON.stringify(JSON.parse(text), null, 2) : text}`;
  } catch (error) {
    return `Not sent: ${error.message}`;
  }
}

function closeMenuOnNavigation() {
  const menu = document.getElementById('menu');
  menu.addEventListener('click', (event) => {
    if (event.target.closest('a') && menu.matches(':popover-open')) menu.hidePopover();
  });
}

function addSearch() {
  const input = document.getElementById('search');
  const results = document.getElementById('results');
  const contents = document.getElementById('contents');
  const status = document.getElementById('search-status');
  const maxResults = 30;
  let index;
  input.closest('search').hidden = false;

  input.addEventListener('input', () => {
    index ??= searchIndex();
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length === 0 ? [] : search(index, words);
    results.replaceChildren(...found.slice(0, maxResults).map(resultItem));
    contents.hidden = words.length > 0;
    status.textContent =
      words.length === 0 ? '' : found.length === 1 ? '1 result' : `${found.length} results`;
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
}

function searchIndex() {
  const sections = document.querySelectorAll('.notes > div, .operation[id], .entries > li');
  return [...sections].map((section) => {
    const title = section.querySelector('h2, h3').textContent;
    const endpoint = section.querySelector('.endpoint')?.textContent ?? '';
    const text = section.querySelector('.text') ?? section;
    return {
      id: section.id,
      title,
      endpoint,
      heading: `${title} ${endpoint}`.toLowerCase(),
      names: [...text.querySelectorAll('code')].map((code) => code.textContent.toLowerCase()),
      text: text.textContent.toLowerCase(),
    };
  });
}

/** Finds entries that contain every word. Sorts matches in headings first, then in field names, then in the text. */
function search(index, words) {
  return index
    .filter(({ text }) => words.every((word) => text.includes(word)))
    .map((entry) => ({ entry, rank: rankOf(entry, words) }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ entry }) => entry);
}

function rankOf({ heading, names }, words) {
  if (words.every((word) => heading.includes(word))) return 0;
  return words.every((word) => names.some((name) => name.includes(word))) ? 1 : 2;
}

function resultItem({ id, title, endpoint }) {
  const link = document.createElement('a');
  link.href = `#${id}`;
  const label = document.createElement('span');
  label.textContent = title;
  const detail = document.createElement('small');
  detail.textContent = endpoint;
  link.append(label, detail);
  const item = document.createElement('li');
  item.append(link);
  return item;
}
