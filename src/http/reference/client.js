for (const place of document.querySelectorAll('.origin')) place.textContent = location.origin;

const menu = document.getElementById('menu');
menu.addEventListener('click', (event) => {
  if (event.target.closest('a') && menu.matches(':popover-open')) menu.hidePopover();
});

for (const sample of navigator.clipboard ? document.querySelectorAll('.sample') : []) {
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(sample.querySelector('code').textContent);
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, 1500);
  });
  sample.querySelector('figcaption').append(button);
}
